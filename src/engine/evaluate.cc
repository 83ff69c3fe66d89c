#include "engine/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "platform/thread_pool.h"

namespace colibri {
namespace {

// Logits of so much are kept of one engine at a time: enough rows for a step's matrices to be read
// once for many tokens, whatever the vocabulary.
constexpr uint64_t kLogitsBytes = uint64_t{128} << 20;

int32_t RowsAtATime(int32_t vocab_size, int32_t max_batch_tokens, int32_t context) {
  const uint64_t row_bytes = static_cast<uint64_t>(vocab_size) * sizeof(float);
  const uint64_t most = static_cast<uint64_t>(std::min(max_batch_tokens, context));
  return static_cast<int32_t>(std::clamp<uint64_t>(kLogitsBytes / row_bytes, 1, most));
}

std::string TokenAt(const EvaluationText& text, const Tokenizer& tokenizer, size_t i) {
  if (i >= text.ids.size()) return "the end of the text";
  const int32_t id = text.ids[i];
  return StrCat("token ", id, " (\"", Printable(tokenizer.IdToToken(id)), "\")");
}

std::string BosText(const std::optional<int32_t>& bos) {
  return bos ? StrCat("token ", *bos) : "none";
}

// One engine going through windows.
class WindowReader {
 public:
  static Result<WindowReader> Create(Engine& engine, const WindowPlan& plan) {
    WindowReader reader(engine, plan);
    COLIBRI_ASSIGN_OR_RETURN(reader.sequence_, engine.CreateSequence(plan.context));
    return reader;
  }
  WindowReader(WindowReader&& other) noexcept
      : engine_(other.engine_),
        vocab_(other.vocab_),
        n_rows_(other.n_rows_),
        sequence_(std::exchange(other.sequence_, -1)),
        logits_(std::move(other.logits_)) {}
  WindowReader& operator=(WindowReader&&) = delete;
  ~WindowReader() {
    if (sequence_ >= 0) static_cast<void>(engine_.ReleaseSequence(sequence_));
  }

  int32_t max_step() const { return engine_.max_batch_tokens(); }
  int32_t max_rows() const { return n_rows_; }

  Status Restart() { return engine_.TruncateSequence(sequence_, 0); }

  // Reads the next tokens of the window.
  Status Read(std::span<const int32_t> tokens, LogitsWanted want) {
    const StepItem item = {sequence_, tokens, want};
    StepResult result;
    const StepOutput output = {logits_, {&result, 1}, {}};
    COLIBRI_ASSIGN_OR_RETURN(const StepSummary summary, engine_.Step({&item, 1}, output));
    static_cast<void>(summary);
    COLIBRI_RETURN_IF_ERROR(std::move(result.status));
    first_row_ = static_cast<size_t>(result.first_logits_row);
    return {};
  }

  // The logits of the i-th token of the last Read that wanted all of them.  [vocab]
  std::span<const float> Row(size_t i) const {
    return std::span(logits_).subspan((first_row_ + i) * vocab_, vocab_);
  }

 private:
  WindowReader(Engine& engine, const WindowPlan& plan)
      : engine_(engine),
        vocab_(static_cast<size_t>(engine.vocab_size())),
        n_rows_(RowsAtATime(engine.vocab_size(), engine.max_batch_tokens(), plan.context)),
        logits_(static_cast<size_t>(n_rows_) * vocab_) {}

  Engine& engine_;
  size_t vocab_;
  int32_t n_rows_;
  SequenceId sequence_ = -1;
  std::vector<float> logits_;  // [n_rows, vocab]
  size_t first_row_ = 0;
};

// Takes the token that follows and where it stands in the text; the readers hold its logits in
// Row(row).
using ScoreRow = std::function<Status(size_t row, int32_t next, int64_t position)>;

// Leads the readers, all over the same tokens, through the windows, and calls `score` for each
// scored position in order.
class WindowWalk {
 public:
  WindowWalk(const EvaluationText& text, const WindowPlan& plan, std::span<WindowReader> readers,
             std::span<const std::string_view> names)
      : text_(text), plan_(plan), readers_(readers), names_(names) {
    for (const WindowReader& reader : readers) {
      max_step_ = std::min(max_step_, reader.max_step());
      max_rows_ = std::min(max_rows_, reader.max_rows());
    }
  }

  Status Run(const EvaluationProgress& progress, const ScoreRow& score) {
    for (int32_t window = 0; window < plan_.n_windows; ++window) {
      const int64_t start = int64_t{window} * plan_.step;
      window_.assign(text_.ids.begin() + start, text_.ids.begin() + start + plan_.context);
      if (plan_.bos) window_[0] = *plan_.bos;
      for (WindowReader& reader : readers_) COLIBRI_RETURN_IF_ERROR(reader.Restart());
      // The last token has nothing after it to be scored against: nobody needs its logits.
      const int32_t end = plan_.context - 1;
      for (int32_t done = 0; done < end;) {
        COLIBRI_RETURN_IF_ERROR(progress(window));
        const bool scored = done >= plan_.first;
        const int32_t n =
            scored ? std::min(end - done, max_rows_) : std::min(plan_.first - done, max_step_);
        COLIBRI_RETURN_IF_ERROR(Read(done, n, scored ? LogitsWanted::kAll : LogitsWanted::kNone));
        for (int32_t i = 0; scored && i < n; ++i) {
          const int32_t next = window_[static_cast<size_t>(done + i + 1)];
          COLIBRI_RETURN_IF_ERROR(score(static_cast<size_t>(i), next, start + done + i + 1));
        }
        done += n;
      }
    }
    return {};
  }

 private:
  Status Read(int32_t first, int32_t n, LogitsWanted want) {
    const std::span<const int32_t> tokens =
        std::span(window_).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
    for (size_t i = 0; i < readers_.size(); ++i) {
      Status status = readers_[i].Read(tokens, want);
      if (!status.ok()) return std::move(status).WithContext(names_[i]);
    }
    return {};
  }

  const EvaluationText& text_;
  const WindowPlan& plan_;
  std::span<WindowReader> readers_;
  std::span<const std::string_view> names_;
  int32_t max_step_ = std::numeric_limits<int32_t>::max();
  int32_t max_rows_ = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> window_;  // [context]
};

Status NotFinite(int64_t position) {
  return Internal(
      StrCat("the prediction of token ", position, " of the text (from 0) is not finite"));
}

// A token can be scored before it is read, or without ever being read: the engine would not see it.
Status CheckIds(const EvaluationText& text, int32_t vocab_size) {
  for (size_t i = 0; i < text.ids.size(); ++i) {
    if (text.ids[i] >= 0 && text.ids[i] < vocab_size) continue;
    return InvalidArgument(StrCat("token ", i, " of the text (from 0) is ", text.ids[i],
                                  ", the model has a vocabulary of ", vocab_size));
  }
  return {};
}

// The root of a mean of squares, and what its error becomes.
Estimate RootOf(const Estimate& square) {
  const double root = std::sqrt(square.mean);
  return {root, root > 0 ? square.standard_error / (2 * root) : 0};
}

}  // namespace

Result<EvaluationText> EncodeForEvaluation(const Tokenizer& tokenizer, std::string_view text) {
  EvaluationText out;
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<int32_t> around, tokenizer.Encode(""));
  const std::optional<int32_t> bos = tokenizer.special_ids().bos;
  if (bos && !around.empty() && around.front() == *bos) out.bos = bos;
  COLIBRI_ASSIGN_OR_RETURN(out.ids, tokenizer.Encode(text, {.add_special_tokens = false,
                                                            .parse_special_in_text = false}));
  if (out.bos) out.ids.insert(out.ids.begin(), *out.bos);
  return out;
}

Status CheckSameText(const EvaluationText& text, const Tokenizer& tokenizer,
                     const EvaluationText& reference_text, const Tokenizer& reference_tokenizer) {
  if (text.bos != reference_text.bos) {
    return InvalidArgument(StrCat("the tokenizers put different tokens before a text: the model's ",
                                  BosText(text.bos), ", the reference's ",
                                  BosText(reference_text.bos)));
  }
  const auto [ours, theirs] = std::mismatch(text.ids.begin(), text.ids.end(),
                                            reference_text.ids.begin(), reference_text.ids.end());
  if (ours == text.ids.end() && theirs == reference_text.ids.end()) return {};
  const auto i = static_cast<size_t>(ours - text.ids.begin());
  return InvalidArgument(StrCat("the tokenizers give different ids, first at token ", i,
                                " of the text (from 0): the model's ", TokenAt(text, tokenizer, i),
                                ", the reference's ",
                                TokenAt(reference_text, reference_tokenizer, i)));
}

Result<WindowPlan> PlanWindows(const EvaluationText& text, const WindowOptions& options) {
  const int32_t context = options.context;
  const int32_t stride = options.stride;
  if (context < 2) return InvalidArgument(StrCat("context is ", context, ", must be at least 2"));
  if (stride < 0 || stride >= context) {
    return InvalidArgument(
        StrCat("stride is ", stride, ", must be below the context of ", context));
  }
  if (options.max_windows < 0) {
    return InvalidArgument(StrCat("max_windows is ", options.max_windows, ", must be at least 0"));
  }
  const auto n_tokens = static_cast<int64_t>(text.ids.size());
  if (n_tokens < context) {
    return InvalidArgument(StrCat("the text has ", n_tokens,
                                  " tokens, less than one window of the context, ", context));
  }
  WindowPlan plan;
  plan.context = context;
  if (stride == 0) {
    plan.first = context / 2;
    plan.step = context;
    plan.bos = text.bos;
  } else {
    plan.first = context - stride - 1;
    plan.step = stride;
  }
  int64_t n_windows = (n_tokens - context) / plan.step + 1;
  if (options.max_windows > 0) n_windows = std::min<int64_t>(n_windows, options.max_windows);
  if (n_windows > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(StrCat("the text has ", n_windows, " windows, too many"));
  }
  plan.n_windows = static_cast<int32_t>(n_windows);
  if (plan.n_scored() < 2) {
    return InvalidArgument(StrCat(plan.n_windows, " windows of ", context, " tokens score ",
                                  plan.n_scored(), " tokens, at least 2 are needed"));
  }
  return plan;
}

EngineOptions EvaluationEngine(EngineOptions options, int32_t context, int32_t max_batch_tokens) {
  options.max_context = context;
  options.max_sequences = 1;
  options.max_batch_tokens = std::min(max_batch_tokens, context);
  return options;
}

Status AdmitTogether(std::span<const ModelPlan> models, std::span<const std::string> names,
                     std::span<EngineOptions> options) {
  COLIBRI_CHECK(models.size() == options.size() && models.size() == names.size());
  const uint64_t budget = AvailableMemoryBytes();
  uint64_t total = 0;
  std::string table;
  for (size_t i = 0; i < models.size(); ++i) {
    EngineOptions alone = options[i];
    alone.memory_budget_bytes = std::numeric_limits<uint64_t>::max();
    COLIBRI_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(models[i], alone, Log()));
    const int32_t vocab_size = models[i].config.vocab_size;
    const uint64_t logits_bytes =
        static_cast<uint64_t>(vocab_size) * sizeof(float) *
        static_cast<uint64_t>(
            RowsAtATime(vocab_size, options[i].max_batch_tokens, options[i].max_context));
    options[i].memory_budget_bytes = plan.total_bytes();
    total += plan.total_bytes() + logits_bytes;
    table += StrCat("  ", names[i], ": ", FormatBytes(plan.total_bytes() + logits_bytes),
                    " (weights ", FormatBytes(plan.weight_bytes), ", keys and values ",
                    FormatBytes(plan.kv_bytes), ", scratch ", FormatBytes(plan.scratch_bytes),
                    ", logits ", FormatBytes(logits_bytes), ")\n");
  }
  if (total <= budget) return {};
  return ResourceExhausted(
      StrCat(models.size() == 1 ? "the model does not fit" : "the models do not fit together",
             " into the memory:\n", table, "  total ", FormatBytes(total), ", the system has ",
             FormatBytes(budget), " available"));
}

PerplexityReport ReportPerplexity(const MeanAccumulator& nll) {
  PerplexityReport out;
  out.n_scored = nll.count();
  out.nll = nll.Result();
  out.perplexity = std::exp(out.nll.mean);
  out.standard_error = out.perplexity * out.nll.standard_error;
  out.low_95 = std::exp(out.nll.mean - kNormal95 * out.nll.standard_error);
  out.high_95 = std::exp(out.nll.mean + kNormal95 * out.nll.standard_error);
  return out;
}

Result<PerplexityReport> MeasurePerplexity(Engine& engine, const EvaluationText& text,
                                           const WindowPlan& plan,
                                           const EvaluationProgress& progress) {
  COLIBRI_RETURN_IF_ERROR(CheckIds(text, engine.vocab_size()));
  COLIBRI_ASSIGN_OR_RETURN(WindowReader reader, WindowReader::Create(engine, plan));
  constexpr std::array<std::string_view, 1> kNames = {"the model"};
  MeanAccumulator nll;
  const auto score = [&](size_t row, int32_t next, int64_t position) -> Status {
    const double value = NegativeLogLikelihood(reader.Row(row), next);
    if (!std::isfinite(value)) return NotFinite(position);
    nll.Add(value);
    return {};
  };
  COLIBRI_RETURN_IF_ERROR(
      WindowWalk(text, plan, std::span(&reader, 1), kNames).Run(progress, score));
  return ReportPerplexity(nll);
}

Result<DivergenceReport> MeasureDivergence(Engine& model, Engine& reference,
                                           const EvaluationText& text, const WindowPlan& plan,
                                           const EvaluationProgress& progress) {
  if (model.vocab_size() != reference.vocab_size()) {
    return InvalidArgument(StrCat("the model has a vocabulary of ", model.vocab_size(),
                                  " tokens, the reference of ", reference.vocab_size()));
  }
  COLIBRI_RETURN_IF_ERROR(CheckIds(text, model.vocab_size()));
  constexpr std::array<std::string_view, 2> kNames = {"the model", "the reference"};
  std::vector<WindowReader> readers;
  readers.reserve(kNames.size());
  for (Engine* engine : {&model, &reference}) {
    COLIBRI_ASSIGN_OR_RETURN(WindowReader reader, WindowReader::Create(*engine, plan));
    readers.push_back(std::move(reader));
  }
  MeanAccumulator nll, reference_nll, log_ratio, divergence, squared_difference;
  int64_t n_same_top = 0;
  std::vector<double> divergences;
  divergences.reserve(static_cast<size_t>(plan.n_scored()));
  const auto score = [&](size_t row, int32_t next, int64_t position) -> Status {
    const RowComparison row_of = CompareRows(readers[0].Row(row), readers[1].Row(row), next);
    if (!std::isfinite(row_of.nll) || !std::isfinite(row_of.reference_nll) ||
        !std::isfinite(row_of.divergence)) {
      return NotFinite(position);
    }
    nll.Add(row_of.nll);
    reference_nll.Add(row_of.reference_nll);
    log_ratio.Add(row_of.nll - row_of.reference_nll);
    divergence.Add(row_of.divergence);
    squared_difference.Add(row_of.probability_difference * row_of.probability_difference);
    n_same_top += row_of.same_top ? 1 : 0;
    divergences.push_back(row_of.divergence);
    return {};
  };
  COLIBRI_RETURN_IF_ERROR(WindowWalk(text, plan, readers, kNames).Run(progress, score));

  std::sort(divergences.begin(), divergences.end());
  DivergenceReport out;
  out.model = ReportPerplexity(nll);
  out.reference = ReportPerplexity(reference_nll);
  out.log_ratio = log_ratio.Result();
  out.divergence = divergence.Result();
  out.median = Quantile(divergences, 0.5);
  out.quantile_90 = Quantile(divergences, 0.9);
  out.quantile_99 = Quantile(divergences, 0.99);
  out.maximum = divergences.back();
  out.same_top = ShareOf(n_same_top, divergence.count());
  out.probability_difference_rms = RootOf(squared_difference.Result());
  return out;
}

}  // namespace colibri
