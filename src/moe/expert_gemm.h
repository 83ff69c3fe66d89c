// moe/expert_gemm.h - the matrices of feed-forward blocks, for groups of tokens: experts, shared
// experts and dense layers alike.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_table.h"
#include "moe/expert_weights.h"
#include "platform/thread_pool.h"

namespace colibri {

// Tokens that go through the same feed-forward block.
struct ExpertGroup {
  const FfnWeights* weights = nullptr;
  const int32_t* token_rows = nullptr;  // [n_tokens] rows of the input; null: rows 0, 1, ...
  int32_t n_tokens = 0;
  int32_t first_row = 0;  // where its rows begin in the buffers between and behind the two steps
};

// One thread's scratch for a matmul, MatMulScratchFloats(largest k) floats each, `stride` floats
// apart.
struct MatMulScratch {
  float* data = nullptr;
  size_t stride = 0;
  float* of(int thread) const { return data + static_cast<size_t>(thread) * stride; }
};

// gated[row][i] = activation(gate_i . x, up_i . x) for every token of every group: one call of the
// kernel for an expert's matrix and panel of rows, all panels of all experts in one queue over all
// threads.
//   x      [.., hidden]
//   gated  rows of gated_stride floats; row first_row + i is token i of a group
void ExpertGateUp(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                  const GatedActivationArgs& activation, const float* x, size_t x_stride,
                  float* gated, size_t gated_stride, MatMulScratch scratch,
                  MatMulScratch up_scratch);

// out[row] = down . gated[row] (+ bias), rows of out_stride floats.
void ExpertDown(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                const float* gated, size_t gated_stride, float* out, size_t out_stride,
                MatMulScratch scratch);

// Rows of a weight matrix that one task computes.
inline constexpr int32_t kPanelRows = 64;

}  // namespace colibri
