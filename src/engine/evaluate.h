// engine/evaluate.h - how well a model predicts a text (perplexity), and how far its predictions
// are from those of a reference (Kullback-Leibler divergence), over windows of the text.
//
// With the same file and text the figures are those of llama.cpp's perplexity tool, but for the
// two programs' own arithmetic and the 16 bits in which that tool keeps a reference.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/score.h"
#include "text/tokenizer.h"

namespace colibri {

// A text as an evaluation reads it.
struct EvaluationText {
  std::vector<int32_t> ids = {};
  std::optional<int32_t> bos = {};  // where the tokenizer puts one before a text, ids' first then
};

// The ids of the whole text: what it spells like a special token is text, and no end of text
// follows. Errors are the tokenizer's.
Result<EvaluationText> EncodeForEvaluation(const Tokenizer& tokenizer, std::string_view text);

// InvalidArgument when the ids of the two differ, with the first place where they do and the tokens
// there.
Status CheckSameText(const EvaluationText& text, const Tokenizer& tokenizer,
                     const EvaluationText& reference_text, const Tokenizer& reference_tokenizer);

struct WindowOptions {
  int32_t context = 512;    // tokens of a window
  int32_t stride = 0;       // 0: windows side by side, see WindowPlan
  int32_t max_windows = 0;  // 0: all
};

// Which tokens are scored. Each window is computed from an empty cache; the logits of its positions
// [first, context - 1) are scored, each against the token of the position after it.
//   Without a stride the windows lie side by side, first is context / 2, and where the tokenizer
//   has a BOS it stands in the place of each window's first token.
//   With a stride S a window starts S tokens after the one before and first is context - S - 1, so
//   that the last S tokens of each are scored and no token is scored twice; no BOS is put in.
// A rest of the text that fills no window is left out.
struct WindowPlan {
  int32_t context = 0;
  int32_t first = 0;
  int32_t step = 0;  // from the start of a window to the next one's
  int32_t n_windows = 0;
  std::optional<int32_t> bos;  // in the place of each window's first token

  int32_t n_scored_per_window() const { return context - 1 - first; }
  int64_t n_scored() const { return int64_t{n_windows} * n_scored_per_window(); }
};

// InvalidArgument, with the numbers, for an option out of range and for a text of less than one
// window, or one in which fewer than two tokens are scored.
Result<WindowPlan> PlanWindows(const EvaluationText& text, const WindowOptions& options);

// An engine that an evaluation needs: one sequence of the context.
EngineOptions EvaluationEngine(EngineOptions options, int32_t context, int32_t max_batch_tokens);

// Sets memory_budget_bytes of each of the engines so that all of them, and the logits that are kept
// of each, fit into what the system has available. ResourceExhausted, with the table of each, when
// they don't; InvalidArgument as PlanMemory. `names` stand in the message.
Status AdmitTogether(std::span<const ModelPlan> models, std::span<const std::string> names,
                     std::span<EngineOptions> options);

// Asked before each step, with the number of windows that are done; an error of it ends the
// evaluation.
using EvaluationProgress = std::function<Status(int32_t n_windows_done)>;

struct PerplexityReport {
  int64_t n_scored = 0;
  Estimate nll;                    // nats a token
  double perplexity = 0;           // exp(mean nll)
  double standard_error = 0;       // perplexity * standard error of nll
  double low_95 = 0, high_95 = 0;  // exp of the 95 % interval of nll
};
PerplexityReport ReportPerplexity(const MeanAccumulator& nll);

// Errors are the engine's, InvalidArgument for a token id beyond the vocabulary among them, and
// Internal for a logit that is not finite. `engine` has no other sequence.
Result<PerplexityReport> MeasurePerplexity(Engine& engine, const EvaluationText& text,
                                           const WindowPlan& plan,
                                           const EvaluationProgress& progress);

struct DivergenceReport {
  PerplexityReport model;
  PerplexityReport reference;
  Estimate log_ratio;   // ln(perplexity of the model / perplexity of the reference)
  Estimate divergence;  // KL(reference || model), nats a token
  double median = 0, quantile_90 = 0, quantile_99 = 0, maximum = 0;  // of the divergence
  Estimate same_top;                    // share of positions with the same most likely token
  Estimate probability_difference_rms;  // of the probability of the token that follows
};

// The two must have vocabularies of one size (InvalidArgument).
Result<DivergenceReport> MeasureDivergence(Engine& model, Engine& reference,
                                           const EvaluationText& text, const WindowPlan& plan,
                                           const EvaluationProgress& progress);

}  // namespace colibri
