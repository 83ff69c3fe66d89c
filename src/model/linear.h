// model/linear.h - matrices over all tokens of a step.
#pragma once

#include <cstdint>
#include <span>

#include "model/execution_context.h"
#include "model/weights.h"
#include "moe/expert_gemm.h"

namespace colibri {

// out[t][r] = weights row r . x[t] (+ bias)
struct LinearJob {
  const LinearWeights* weights = nullptr;
  Activations x;                    // in the form that the matrix is multiplied by
  const int32_t* x_rows = nullptr;  // [n_tokens] which rows; null: 0, 1, ...
  float* out = nullptr;             // rows of out_stride floats
  size_t out_stride = 0;
};

// Computes all jobs for n_tokens tokens: their panels of rows stand in one queue over all threads.
void ComputeLinear(ExecutionContext& context, std::span<const LinearJob> jobs, int32_t n_tokens,
                   const ThreadScratch& scratch);

// Calls fn(token, thread) for each token, in runs over all threads.
template <typename F>
void ForEachToken(ThreadPool& pool, int32_t n_tokens, F&& fn) {
  // Runs long enough that handing them out costs nothing beside the work, short enough that all
  // threads have some.
  const int32_t run = n_tokens < 4 * pool.n_threads() ? 1 : 4;
  pool.ParallelFor((n_tokens + run - 1) / run, [&](int64_t task, int thread) {
    const auto first = static_cast<int32_t>(task) * run;
    for (int32_t t = first; t < first + run && t < n_tokens; ++t) fn(t, thread);
  });
}

// What a row of k takes in the largest form but float32.
inline size_t InputBytes(int32_t k) {
  static_assert(sizeof(ActivationGroup) <= kGroupColumns * sizeof(uint16_t) + 2 * sizeof(float));
  return BFloat16RowStride(k) * sizeof(uint16_t);
}

// x in the form that the matrix is multiplied by.
//   room  InputBytes(k) for each token, 64-byte aligned: for the other forms than float32
Activations PrepareInput(ExecutionContext& context, const MatrixView& matrix, const float* x,
                         size_t stride, int32_t n_tokens, uint8_t* room);

}  // namespace colibri
