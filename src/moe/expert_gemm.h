// moe/expert_gemm.h - the matrices of feed-forward blocks, for groups of tokens: experts, shared
// experts and dense layers alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/kernel_table.h"
#include "moe/expert_weights.h"
#include "moe/product.h"
#include "platform/thread_pool.h"

namespace colibri {

// Tokens that go through the same feed-forward block.
struct ExpertGroup {
  const FfnWeights* weights = nullptr;
  const int32_t* token_rows = nullptr;  // [n_tokens] rows of the input and of the block's output;
                                        // null: rows 0, 1, ...
  int32_t n_tokens = 0;
  int32_t first_row = 0;              // where its rows begin in the buffer between the two steps
  const float* out_weight = nullptr;  // [n_tokens] what its answers are multiplied by
};

// The scratch memory of all threads, each one's piece apart by the strides.
struct ThreadScratch {
  float* matmul = nullptr;  // MatMulScratchFloats(longest row) floats
  size_t matmul_stride = 0;
  float* tiles = nullptr;     // three tiles of kTileFloats
  float* answers = nullptr;   // [answer_tokens, kTaskRows]: some columns of a block's answer
  int32_t answer_tokens = 0;  // of a step, at most

  ProductScratch of(int thread) const {
    return {matmul + static_cast<size_t>(thread) * matmul_stride, tile(thread, 0)};
  }
  float* tile(int thread, int index) const {
    return tiles + (static_cast<size_t>(thread) * 3 + static_cast<size_t>(index)) * kTileFloats;
  }
  float* answer(int thread) const {
    return answers + static_cast<size_t>(thread) * static_cast<size_t>(answer_tokens) * kTaskRows;
  }
};

// The buffer between the two steps, for the second one's kernels: a row holds the form of
// activations that the group's `down` is multiplied by.
struct GatedRows {
  float* rows = nullptr;  // 64-byte aligned
  size_t stride = 0;      // floats: at least StrideOf the longest row

  // What a row of k takes in the largest of its forms, in whole lines: short rows of bfloat16,
  // padded to a group and with its sums, are longer than theirs of float32.
  static constexpr size_t StrideOf(int32_t k) {
    constexpr size_t kLineFloats = 16;
    static_assert(sizeof(ActivationGroup) <= kGroupColumns * sizeof(float));
    const size_t bf16 = BFloat16RowStride(k) * sizeof(uint16_t) / sizeof(float);
    return (std::max(static_cast<size_t>(k), bf16) + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
  float* of(int64_t row) const { return rows + static_cast<size_t>(row) * stride; }
  ActivationGroup* groups_of(int64_t row) const {
    return reinterpret_cast<ActivationGroup*>(of(row));
  }
  uint16_t* bf16_of(int64_t row) const { return reinterpret_cast<uint16_t*>(of(row)); }
  // The sums behind a row of k bfloat16.
  float* sums_of(int64_t row, int32_t k) const {
    return reinterpret_cast<float*>(bf16_of(row) + BFloat16RowElements(k));
  }
  // The rows from that one on, in whichever form they are.
  Activations From(int64_t row) const {
    return {of(row),        stride,
            groups_of(row), stride * sizeof(float) / sizeof(ActivationGroup),
            bf16_of(row),   stride * sizeof(float) / sizeof(uint16_t)};
  }
};

// gated[first_row + i] = activation(gate . x, up . x) for token i of every group, at once in the
// form that `down` wants: one call of the kernel for an expert's matrix and task's rows, all of
// them in one queue over all threads.
void ExpertGateUp(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                  const GatedActivationArgs& activation, const Activations& x, GatedRows gated,
                  const ThreadScratch& scratch);

// Where a block's answer goes on to.
struct ResidualAdd {
  float* rows = nullptr;          // [n_tokens, hidden]
  float scale = 1;                // of the answer, as it is added
  uint8_t* not_finite = nullptr;  // [n_tokens] becomes 1 where a sum is not finite
};

// out[token] = the sum over the groups, in their order, of out_weight times (down . gated + bias):
// a task owns some columns of the output for all groups, so the sum needs no second pass and has
// one order. A group without out_weight must be the only one.
//   out  [n_tokens, hidden], out_stride floats apart; overwritten. May be null where `add` has rows
//   add  where each task adds its columns of the answer when they are whole, rows out_stride floats
//        apart; no rows: nowhere
void ExpertDown(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                GatedRows gated, int32_t n_tokens, int32_t hidden, float* out, size_t out_stride,
                const ThreadScratch& scratch, const ResidualAdd& add = {});

}  // namespace colibri
