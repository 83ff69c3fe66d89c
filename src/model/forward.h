// model/forward.h - one step of the model over a ragged batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "model/execution_context.h"
#include "model/kv_layout.h"
#include "model/model.h"

namespace colibri {

// Consecutive new tokens of one sequence: a prefill chunk or a single decode.
struct SequenceSlice {
  int32_t n_tokens = 0;  // > 0
  int32_t position = 0;  // of the first of them; positions before it are in the cache already
  std::span<const int32_t>
      pages;  // page of positions [32 i, 32 i + 32); must cover position + n_tokens
  int32_t recurrent_slot = -1;  // for models with recurrent state
};

// The slices' tokens stand one after the other in `tokens`.
struct Batch {
  std::span<const int32_t> tokens;  // [n_tokens], each in [0, vocab_size)
  std::span<const SequenceSlice>
      slices;  // their n_tokens add up to tokens.size(); no two of one sequence
  std::span<const int32_t> logit_rows;  // ascending indices into tokens whose logits are wanted
};

struct ForwardOutput {
  std::span<float> logits;        // [logit_rows.size(), vocab_size]; written
  std::span<float> layer_hidden;  // empty, or [n_layers + 1, n_tokens, hidden]: embedding, residual
                                  // stream after each layer, the last one after the final norm
  // [slices.size()]: -1, or the layer (n_layers for the head) where a value of this slice ceased to
  // be finite. Its logits are meaningless then; the other slices are untouched.
  std::span<int32_t> failed_layer;
};

// Where a value of a slice first ceased to be finite.
struct FailurePlace {
  std::string what;  // "the product with blk.3.ffn_down_exps.weight of expert 5"; empty: not found
  int32_t position = 0;  // of the token that it belongs to
};

// Counters of the work done, since the forward was made.
struct ForwardStats {
  uint64_t expert_calls = 0;            // one per active expert and matrix
  uint64_t expert_calls_per_token = 0;  // what dispatch token by token would have made
  uint64_t moe_layers = 0;              // layers with experts, one a step
  uint64_t moe_jobs = 0;   // jobs of the pool within them: the times that all threads waited
  double moe_s = 0;        // the time of them, from the mixer's answer to the residual
  double moe_route_s = 0;  // of it, up to the groups: residual, norm, routing, grouping
};

// The scratch memory of a model's steps, sized once for the largest batch. One step at a time.
class Forward {
 public:
  // Keeps references to model and context, which must outlive it.
  //   max_tokens    most tokens of a step
  //   max_context   most positions of a sequence
  //   rope_context  what LongRoPE chooses its factors by, fixed for all steps; 0: max_context
  static Result<std::unique_ptr<Forward>> Create(const Model& model, ExecutionContext& context,
                                                 int32_t max_tokens, int32_t max_context,
                                                 int32_t rope_context = 0);
  ~Forward();

  // Computes the batch: reads and writes the slices' cache rows. Allocates nothing. A batch that
  // breaks the rules above is a bug of the caller's and fails a check. Guarantee: a token's logits
  // depend on its sequence alone, not on the batch, the chunks or the threads.
  void Step(const Batch& batch, const KvStorage& kv, const ForwardOutput& output);

  // For a slice that a step said to have failed in `layer`: computes it once more, alone, up to
  // that layer, and looks at what each step gives. By the guarantee above it meets the same values.
  // Slow, and it allocates; the slice's cache rows are written again, with the same.
  //   batch  that slice, its tokens and the rows whose logits were wanted
  FailurePlace FindFailure(const Batch& batch, const KvStorage& kv, int32_t layer);

  const ForwardStats& stats() const;
  // Bytes of scratch memory that Create takes for these sizes.
  static uint64_t ScratchBytes(const ModelConfig& config, int n_threads, int32_t max_tokens,
                               int32_t max_context);

 private:
  class Impl;
  explicit Forward(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri
