// moe/router_spec.h - a family's router as data: one point in the space of all routers.
#pragma once

#include <cstdint>

namespace colibri {

enum class RouterScore : uint8_t {
  kSoftmax,       // softmax over all experts, before the selection
  kSigmoid,       // each logit on its own
  kSqrtSoftplus,  // sqrt(log(1 + exp(logit)))
  kLogit,         // the logit itself (softmax over the selected ones follows, see softmax_selected)
  kSparseMixer,   // PhiMoE: k rounds of arg max, each with a softmax over the logits within a
                  // relative margin of that maximum
};

// How a group of experts is scored when only the best groups take part.
enum class GroupScore : uint8_t {
  kMax,     // its best expert (DeepSeek-V2)
  kTopTwo,  // the sum of its two best (DeepSeek-V3, arXiv:2412.19437, section 2.1.2)
};

struct RouterSpec {
  int32_t n_experts = 0;
  int32_t n_selected = 0;  // k: 1 <= k <= n_experts
  RouterScore score = RouterScore::kSoftmax;
  bool softmax_selected = false;  // softmax over the k selected scores (Mixtral, gpt-oss, Granite)
  bool renormalize = false;       // weights divided by their sum
  float renormalize_epsilon = 0;  // added to that sum
  float renormalize_floor = 0;    // the sum is at least this (ERNIE's moe_norm_min)
  float scale = 1;                // routed_scaling_factor, after renormalisation
  int32_t n_groups = 1;           // experts come in n_groups equal runs...
  int32_t n_selected_groups = 1;  // ...of which only the best take part
  GroupScore group_score = GroupScore::kMax;
  float sparse_mixer_jitter = 0.01f;  // kSparseMixer's relative margin is twice this
};

}  // namespace colibri
