#include "model/linear.h"

#include <algorithm>

namespace colibri {
namespace {

int64_t Tasks(const LinearJob& job) {
  return (job.weights->matrix.rows + kTaskRows - 1) / kTaskRows;
}

void ComputeTask(const KernelTable& kernels, const LinearJob& job, int64_t task, int32_t n_tokens,
                 const ProductScratch& scratch) {
  const MatrixView& w = job.weights->matrix;
  ProductArgs args;
  args.w = &w;
  args.first_row = static_cast<int32_t>(task * kTaskRows);
  args.n_rows = std::min(kTaskRows, w.rows - args.first_row);
  args.x = job.x;
  args.x_rows = job.x_rows;
  args.n_tokens = n_tokens;
  args.out = job.out + args.first_row;
  args.out_stride = job.out_stride;
  args.bias = job.weights->bias == nullptr ? nullptr : job.weights->bias + args.first_row;
  const int32_t next = args.first_row + args.n_rows;
  if (w.layout == Layout::kPanels && next < w.rows) args.next = w.row(next);
  Multiply(kernels, args, scratch);
}

}  // namespace

void ComputeLinear(ExecutionContext& context, std::span<const LinearJob> jobs, int32_t n_tokens,
                   const ThreadScratch& scratch) {
  int64_t n_tasks = 0;
  for (const LinearJob& job : jobs) n_tasks += Tasks(job);
  context.pool.ParallelFor(n_tasks, [&](int64_t task, int thread) {
    for (const LinearJob& job : jobs) {
      const int64_t tasks = Tasks(job);
      if (task < tasks)
        return ComputeTask(context.kernels, job, task, n_tokens, scratch.of(thread));
      task -= tasks;
    }
  });
}

Activations QuantizeFor(ExecutionContext& context, const MatrixView& matrix, const float* x,
                        size_t stride, int32_t n_tokens, ActivationGroup* groups) {
  if (matrix.layout != Layout::kPanels) return {x, stride, nullptr, 0};
  const auto group_stride = static_cast<size_t>(matrix.cols / kGroupColumns);
  ForEachToken(context.pool, n_tokens, [&](int32_t t, int) {
    const auto row = static_cast<size_t>(t);
    context.kernels.quantize_row(x + row * stride, matrix.cols, groups + row * group_stride);
  });
  return {x, stride, groups, group_stride};
}

}  // namespace colibri
