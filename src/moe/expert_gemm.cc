#include "moe/expert_gemm.h"

#include <algorithm>

namespace colibri {
namespace {

int64_t Panels(int32_t rows) {
  return (rows + kPanelRows - 1) / kPanelRows;
}

// Finds the group and the panel of a task in the one queue over all groups. Groups are few and
// tasks long, so a walk is cheap.
struct Task {
  size_t group;
  int32_t first_row;
  int32_t n_rows;
};
template <typename RowsOf>
Task FindTask(std::span<const ExpertGroup> groups, int64_t task, RowsOf rows_of) {
  size_t g = 0;
  int64_t panels = Panels(rows_of(groups[0]));
  while (task >= panels) {
    task -= panels;
    panels = Panels(rows_of(groups[++g]));
  }
  const auto first = static_cast<int32_t>(task * kPanelRows);
  return {g, first, std::min(kPanelRows, rows_of(groups[g]) - first)};
}

template <typename RowsOf>
int64_t CountTasks(std::span<const ExpertGroup> groups, RowsOf rows_of) {
  int64_t n = 0;
  for (const ExpertGroup& group : groups) n += Panels(rows_of(group));
  return n;
}

void AddBias(const float* bias, int32_t n_tokens, int32_t n, float* out, size_t stride) {
  if (bias == nullptr) return;
  for (int32_t t = 0; t < n_tokens; ++t) {
    float* row = out + static_cast<size_t>(t) * stride;
    for (int32_t i = 0; i < n; ++i) row[i] += bias[i];
  }
}

MatMulArgs PanelArgs(const MatrixView& w, const Task& task, const float* x, size_t x_stride,
                     const int32_t* x_rows, int32_t n_tokens, float* out, size_t out_stride,
                     float* scratch) {
  return {w.row(task.first_row),
          w.row_bytes,
          task.n_rows,
          w.cols,
          x,
          x_stride,
          x_rows,
          n_tokens,
          out,
          out_stride,
          scratch};
}

}  // namespace

void ExpertGateUp(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                  const GatedActivationArgs& activation, const float* x, size_t x_stride,
                  float* gated, size_t gated_stride, MatMulScratch scratch,
                  MatMulScratch up_scratch) {
  const auto rows_of = [](const ExpertGroup& group) { return group.weights->gate.rows; };
  pool.ParallelFor(CountTasks(groups, rows_of), [&](int64_t index, int thread) {
    const Task task = FindTask(groups, index, rows_of);
    const ExpertGroup& group = groups[task.group];
    const FfnWeights& w = *group.weights;
    // Up goes to a tile of this thread's own; tokens are taken in runs that fit it.
    constexpr int32_t kTileTokens = 64;
    float* up = up_scratch.of(thread);  // [kTileTokens, kPanelRows]
    for (int32_t first = 0; first < group.n_tokens; first += kTileTokens) {
      const int32_t n = std::min(kTileTokens, group.n_tokens - first);
      const int32_t* rows = group.token_rows != nullptr ? group.token_rows + first : nullptr;
      const float* input =
          group.token_rows != nullptr ? x : x + static_cast<size_t>(first) * x_stride;
      float* out =
          gated + static_cast<size_t>(group.first_row + first) * gated_stride + task.first_row;
      kernels.matmul[static_cast<size_t>(w.gate.dtype)](
          PanelArgs(w.gate, task, input, x_stride, rows, n, out, gated_stride, scratch.of(thread)));
      kernels.matmul[static_cast<size_t>(w.up.dtype)](
          PanelArgs(w.up, task, input, x_stride, rows, n, up, kPanelRows, scratch.of(thread)));
      if (w.gate_bias != nullptr)
        AddBias(w.gate_bias + task.first_row, n, task.n_rows, out, gated_stride);
      if (w.up_bias != nullptr) AddBias(w.up_bias + task.first_row, n, task.n_rows, up, kPanelRows);
      for (int32_t t = 0; t < n; ++t) {
        float* row = out + static_cast<size_t>(t) * gated_stride;
        kernels.gated_activation(activation, row, up + static_cast<ptrdiff_t>(t) * kPanelRows,
                                 static_cast<size_t>(task.n_rows), row);
      }
    }
  });
}

void ExpertDown(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                const float* gated, size_t gated_stride, float* out, size_t out_stride,
                MatMulScratch scratch) {
  const auto rows_of = [](const ExpertGroup& group) { return group.weights->down.rows; };
  pool.ParallelFor(CountTasks(groups, rows_of), [&](int64_t index, int thread) {
    const Task task = FindTask(groups, index, rows_of);
    const ExpertGroup& group = groups[task.group];
    const FfnWeights& w = *group.weights;
    float* rows = out + static_cast<size_t>(group.first_row) * out_stride + task.first_row;
    kernels.matmul[static_cast<size_t>(w.down.dtype)](
        PanelArgs(w.down, task, gated + static_cast<size_t>(group.first_row) * gated_stride,
                  gated_stride, nullptr, group.n_tokens, rows, out_stride, scratch.of(thread)));
    if (w.down_bias != nullptr)
      AddBias(w.down_bias + task.first_row, group.n_tokens, task.n_rows, rows, out_stride);
  });
}

}  // namespace colibri
