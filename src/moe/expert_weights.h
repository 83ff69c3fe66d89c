// moe/expert_weights.h - the weights of one feed-forward block, dense or with experts.
#pragma once

#include <vector>

#include "tensor/matrix_view.h"

namespace colibri {

// Gate and up [intermediate, hidden], down [hidden, intermediate]; biases float32 or null.
struct FfnWeights {
  MatrixView gate, up, down;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
};

struct MoeWeights {
  MatrixView router;                      // [n_experts, hidden]
  const float* router_bias = nullptr;     // [n_experts], part of the logits
  const float* selection_bias = nullptr;  // [n_experts], for the selection alone
  std::vector<FfnWeights> experts;        // [n_experts]; types may differ among experts
  FfnWeights shared;                      // empty where there is none
  MatrixView shared_gate;                 // [1, hidden], or empty
};

}  // namespace colibri
