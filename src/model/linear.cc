#include "model/linear.h"

#include <algorithm>

namespace colibri {
namespace {

int64_t Panels(const LinearJob& job) {
  return (job.weights->matrix.rows + kPanelRows - 1) / kPanelRows;
}

void ComputePanel(const KernelTable& kernels, const LinearJob& job, int64_t panel, int32_t n_tokens,
                  float* scratch) {
  const MatrixView& w = job.weights->matrix;
  const auto first = static_cast<int32_t>(panel * kPanelRows);
  const int32_t rows = std::min(kPanelRows, w.rows - first);
  kernels.matmul[static_cast<size_t>(w.dtype)]({w.row(first), w.row_bytes, rows, w.cols, job.x,
                                                job.x_stride, job.x_rows, n_tokens, job.out + first,
                                                job.out_stride, scratch});
  if (job.weights->bias == nullptr) return;
  for (int32_t t = 0; t < n_tokens; ++t) {
    float* row = job.out + static_cast<size_t>(t) * job.out_stride + first;
    for (int32_t r = 0; r < rows; ++r) row[r] += job.weights->bias[first + r];
  }
}

}  // namespace

void ComputeLinear(ExecutionContext& context, std::span<const LinearJob> jobs, int32_t n_tokens,
                   MatMulScratch scratch) {
  int64_t n_tasks = 0;
  for (const LinearJob& job : jobs) n_tasks += Panels(job);
  context.pool.ParallelFor(n_tasks, [&](int64_t task, int thread) {
    for (const LinearJob& job : jobs) {
      const int64_t panels = Panels(job);
      if (task < panels)
        return ComputePanel(context.kernels, job, task, n_tokens, scratch.of(thread));
      task -= panels;
    }
  });
}

}  // namespace colibri
