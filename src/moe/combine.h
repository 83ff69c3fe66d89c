// moe/combine.h - brings the experts' answers of a token together.
#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"

namespace colibri {

// out = sum over j, in order of j, of weight[j] * expert_out[slot[j]]: the order of the token's own
// choices, which no batch changes.
//   slot, weight  [k]
//   expert_out    rows of stride floats
//   out           [hidden]; overwritten
inline void Combine(const KernelTable& kernels, const int32_t* slot, const float* weight, int32_t k,
                    const float* expert_out, size_t stride, size_t hidden, float* out) {
  for (size_t i = 0; i < hidden; ++i) out[i] = 0;
  for (int32_t j = 0; j < k; ++j)
    kernels.axpy(weight[j], expert_out + static_cast<size_t>(slot[j]) * stride, hidden, out);
}

}  // namespace colibri
