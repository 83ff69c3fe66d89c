// moe/routing.h - which experts each token goes to, and with what weight.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "moe/router_spec.h"

namespace colibri {

// Checks that a spec can be routed by: 1 <= k <= experts, groups that divide the experts and hold k
// of them, finite factors.
Status ValidateRouterSpec(const RouterSpec& spec);

// The experts of a batch of tokens, laid out for dispatch.
struct RoutingView {
  std::span<int32_t>
      expert;  // [n_tokens, k]   in the order of selection: decreasing score, ties to the lower id
  std::span<float> weight;  // [n_tokens, k]   after renormalisation and scaling
};

// Floats of scratch that one call of Route or RouteToken needs.
inline size_t RouterScratchFloats(const RouterSpec& spec) {
  return 2 * static_cast<size_t>(spec.n_experts);
}

// Chooses k experts for each token from router logits.
//   logits          [n_tokens, n_experts] float32
//   selection_bias  [n_experts], added to the scores for the selection alone; empty: none
//   scratch         RouterScratchFloats(spec) floats
//   out             caller's memory; every element is written
// Fails with InvalidArgument when a logit is NaN or +inf, naming the token. Allocates nothing on
// success; safe from many threads on different outputs. Group-limited selection follows DeepSeek-V3
// (arXiv:2412.19437, section 2.1.2), the sparse mixer Phi-3.5-MoE (arXiv:2409.12136).
Status Route(const RouterSpec& spec, std::span<const float> logits,
             std::span<const float> selection_bias, std::span<float> scratch, RoutingView out);

// Route for one token; false when a logit is NaN or +inf or a score with its bias is NaN: the token
// then has experts 0 to k-1 at weight 0.
bool RouteToken(const RouterSpec& spec, const float* logits, const float* selection_bias,
                float* scratch, int32_t* expert, float* weight);

}  // namespace colibri
