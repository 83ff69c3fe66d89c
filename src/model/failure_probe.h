// model/failure_probe.h - finds the step of a layer that first gives a value that is not finite.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/mixer/attention.h"
#include "model/tensor_names.h"
#include "model/weights.h"
#include "moe/ffn_probe.h"

namespace colibri {

// Is shown what the steps of one layer give, in the order of the steps, and keeps the first rows
// with a value that is not finite. One thread. Rows stand one after the other, `stride` floats
// apart, one a token.
class FailureProbe {
 public:
  explicit FailureProbe(const TensorNames& names) : names_(names) {}

  bool found() const { return token_ >= 0; }
  // "the product with blk.3.attn_k.weight", and the token of the batch; once found.
  const std::string& what() const { return what_; }
  int32_t token() const { return token_; }

  void LookAtProduct(const LinearWeights& weights, const float* rows, int32_t n_tokens,
                     size_t stride);
  // A token's row of a product that is known to be bad.
  void NoteProduct(const LinearWeights& weights, const float* row, int32_t token);
  // Rows that a norm gave; without a weight, that the rotation gave.
  void LookAtNorm(const NormWeights& norm, const float* rows, int32_t n_tokens, size_t stride,
                  int64_t n);
  // Keys or values that go to the cache, whose type takes magnitudes below `limit`.
  void LookAtCached(const LinearWeights& weights, const float* rows, int32_t n_tokens,
                    size_t stride, size_t n, float limit);
  // What attention with queries and keys of these weights gave.
  void LookAtAttention(const AttentionCall& call, int32_t n_tokens, size_t n,
                       const LinearWeights& q, const LinearWeights& k);
  // Any other rows; `what` says what gave them.
  void LookAtRows(std::string_view what, const float* rows, int32_t n_tokens, size_t stride,
                  size_t n);
  // A step of the feed-forward block of some weights; `expert` below 0: no expert's.
  void NoteFfn(const FfnFault& fault, const FfnWeights& weights, int64_t expert);
  // What the caller found.
  void Note(std::string what, int32_t token);
  // "blk.3.attn_k.weight", or what stands for a weight without a name.
  std::string NameOf(const void* weight) const;

 private:
  const TensorNames& names_;
  std::string what_;
  int32_t token_ = -1;
};

}  // namespace colibri
