// engine/engine.h - a loaded model that computes: sequences with their cache, and steps over ragged
// batches of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "engine/kv_cache.h"
#include "format/model_files.h"
#include "kernels/kernel_table.h"
#include "model/forward.h"
#include "model/model.h"
#include "platform/topology.h"

namespace colibri {

class Tokenizer;

// Measured: the predictions' KL divergence from those of float32 is below 1e-6 (docs/quality.md).
inline constexpr KvType kDefaultKvType = KvType::kF16;

struct EngineOptions {
  int32_t n_threads = 0;  // 0: DefaultThreadCount()
  std::optional<PinMode> pin =
      {};                    // each thread to a CPU; nothing: COLIBRI_PIN (on, off), else auto
  int32_t max_context = 0;   // positions of one sequence; 0: the model's, up to
                             // kDefaultContext, less where memory is short (which is logged)
  int32_t rope_context = 0;  // positions that LongRoPE chooses its factors by; 0: max_context
                             // as asked for, whatever memory leaves of it
  int32_t max_batch_tokens = 512;         // tokens of one step
  int32_t max_sequences = 8;              // alive at one time
  KvType kv_type = kDefaultKvType;        // what keys and values are stored as
  std::optional<Topology> topology = {};  // of the machine; nothing: asked of the system
  uint64_t kv_cache_bytes = 0;       // 0: max_sequences of max_context, or as much of it as half of
                                     // the memory left beside the weights holds
  uint64_t memory_budget_bytes = 0;  // for everything; 0: AvailableMemoryBytes(), and the free
                                     // pages of the hugetlb pool where all weights fit there
  ActivationType activations = ActivationType::kInt8;  // what weights in panels are multiplied by
  std::string forced_isa = {};  // a kernel table's name; empty: COLIBRI_FORCE_ISA, else the best
  // Asked about the model's chat template (empty: it has none) before a weight is read; an error of
  // it is Create's.
  std::function<Status(const std::string&)> check_chat_template = {};
  // Bytes read and bytes in all, now and then while weights load, from the loading thread.
  std::function<void(uint64_t, uint64_t)> load_progress = {};
};

inline constexpr int32_t kDefaultContext = 8192;

// The memory of an engine, and the options with every 0 resolved.
struct MemoryPlan {
  EngineOptions options;
  int32_t n_pages = 0;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint64_t loading_bytes =
      0;  // buffers of the loader, given back before cache and scratch are taken
  uint64_t budget_bytes = 0;
  uint64_t hugetlb_bytes = 0;  // of the budget: what the weights take from the hugetlb pool
  // The most at one time.
  uint64_t total_bytes() const {
    return weight_bytes + std::max(loading_bytes, kv_bytes + scratch_bytes);
  }
  // Several lines, one a row of the table.
  std::string ToString() const;
};

// What an engine with these options takes, without loading a weight. InvalidArgument for an option
// out of range; ResourceExhausted, with the table, when it does not fit the budget.
Result<MemoryPlan> PlanMemory(const ModelPlan& model, const EngineOptions& options, const Log& log);

using SequenceId = int64_t;  // never used twice by one engine

enum class LogitsWanted : uint8_t { kNone, kLast, kAll };

// New tokens of one sequence, at the position where it stands.
struct StepItem {
  SequenceId sequence = -1;
  std::span<const int32_t> tokens = {};  // at least one
  LogitsWanted want = LogitsWanted::kLast;
};

// What became of an item. On an error its sequence stands where it stood, and the step's other
// items are computed all the same: InvalidArgument for an unknown sequence, no tokens, a token id
// outside the vocabulary, a sequence named twice or more tokens than it has room for (with the
// counts); Internal, naming layer, tensor and position, when a value ceased to be finite (a model
// with recurrent state loses the whole sequence then: it has no tokens any more).
struct StepResult {
  Status status;
  int32_t first_logits_row = 0;  // rows of StepOutput::logits
  int32_t n_logits_rows = 0;
  int32_t first_token_row = 0;  // row of this item's first token in each layer of layer_hidden
};

// The caller's memory.
struct StepOutput {
  std::span<float> logits = {};        // at least [rows that the items want, vocab_size]
  std::span<StepResult> results = {};  // [items]
  std::span<float> layer_hidden = {};  // empty, or at least [n_layers + 1, tokens of the items,
                                       // hidden]; written as [n_layers + 1, n_tokens, hidden]
};

struct StepSummary {
  int32_t n_tokens = 0;  // of the items that were computed
};

// One thread at a time may use an engine. Sequences keep their tokens' cache until released.
class Engine {
 public:
  // Opens, checks, admits and loads what `path` names (see OpenModelFiles).
  static Result<std::unique_ptr<Engine>> Create(const std::string& path,
                                                const EngineOptions& options, const Log& log);
  // The same for files that the caller opened.
  static Result<std::unique_ptr<Engine>> Create(ModelFiles files, const EngineOptions& options,
                                                const Log& log);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A sequence that may grow to max_tokens. ResourceExhausted, with the numbers, when its pages are
  // not free; InvalidArgument when it exceeds max_context().
  Result<SequenceId> CreateSequence(int32_t max_tokens);
  // Forgets all but the first n_tokens. InvalidArgument when it has fewer, or when the model has
  // recurrent state and this is neither all of it nor none.
  Status TruncateSequence(SequenceId sequence, int32_t n_tokens);
  // Returns its memory. NotFound when there is no such sequence.
  Status ReleaseSequence(SequenceId sequence);
  // Tokens in the cache and the most that it may hold; -1 for an unknown sequence.
  int32_t SequenceLength(SequenceId sequence) const;
  int32_t SequenceCapacity(SequenceId sequence) const;

  // Computes the items' tokens in one batch. An error of the call as a whole (more tokens than
  // max_batch_tokens, buffers too small) leaves everything as it was; errors of an item are in its
  // result. Allocates nothing unless an item fails.
  Result<StepSummary> Step(std::span<const StepItem> items, const StepOutput& output);

  const Model& model() const;
  const ModelConfig& config() const;
  int32_t vocab_size() const;
  int32_t max_context() const;
  int32_t max_batch_tokens() const;
  int32_t max_sequences() const;
  int32_t n_threads() const;
  bool threads_pinned() const;
  const char* isa() const;  // the kernel table's name
  const MemoryPlan& memory_plan() const;
  const KvCache& kv_cache() const;
  const ForwardStats& stats() const;
  const std::string& chat_template() const;  // empty when the model has none

  // Null when the model's files have none; tokenizer_status() says why then.
  const Tokenizer* tokenizer() const;
  const Status& tokenizer_status() const;
  // Tokens that end an answer: of configuration, generation configuration and tokenizer (its end of
  // text and end of turn). Ascending.
  const std::vector<int32_t>& eos_ids() const;
  bool IsEos(int32_t token) const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri
