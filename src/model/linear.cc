#include "model/linear.h"

#include <algorithm>

namespace colibri {
namespace {

int64_t Tasks(const LinearJob& job) {
  return (job.weights->matrix.rows + kTaskRows - 1) / kTaskRows;
}

// Some rows of a job, and the way to the next ones.
struct Task {
  const LinearJob* job;
  int64_t index;
};
Task FindTask(std::span<const LinearJob> jobs, int64_t index) {
  size_t j = 0;
  while (index >= Tasks(jobs[j])) index -= Tasks(jobs[j++]);
  return {&jobs[j], index};
}
Task After(const Task& task) {
  if (task.index + 1 < Tasks(*task.job)) return {task.job, task.index + 1};
  return {task.job + 1, 0};
}
const uint8_t* StartOf(const Task& task) {
  return PanelAt(task.job->weights->matrix, static_cast<int32_t>(task.index * kTaskRows));
}

void ComputeTask(const KernelTable& kernels, const Task& task, int32_t n_tokens,
                 const uint8_t* next, const ProductScratch& scratch) {
  const LinearJob& job = *task.job;
  const MatrixView& w = job.weights->matrix;
  ProductArgs args;
  args.w = &w;
  args.first_row = static_cast<int32_t>(task.index * kTaskRows);
  args.n_rows = std::min(kTaskRows, w.rows - args.first_row);
  args.x = job.x;
  args.x_rows = job.x_rows;
  args.n_tokens = n_tokens;
  args.out = job.out + args.first_row;
  args.out_stride = job.out_stride;
  args.bias = job.weights->bias == nullptr ? nullptr : job.weights->bias + args.first_row;
  args.next = next;
  Multiply(kernels, args, scratch);
}

}  // namespace

void ComputeLinear(ExecutionContext& context, std::span<const LinearJob> jobs, int32_t n_tokens,
                   const ThreadScratch& scratch) {
  int64_t n_tasks = 0;
  for (const LinearJob& job : jobs) n_tasks += Tasks(job);
  const int64_t run = TasksOfARun(n_tasks, context.pool.n_threads());
  context.pool.ParallelFor((n_tasks + run - 1) / run, [&](int64_t index, int thread) {
    const int64_t end = std::min((index + 1) * run, n_tasks);
    Task task = FindTask(jobs, index * run);
    for (int64_t i = index * run; i < end; ++i) {
      const Task next = After(task);
      ComputeTask(context.kernels, task, n_tokens, i + 1 < end ? StartOf(next) : nullptr,
                  scratch.of(thread));
      task = next;
    }
  });
}

Activations PrepareInput(ExecutionContext& context, const MatrixView& matrix, const float* x,
                         size_t stride, int32_t n_tokens, uint8_t* room) {
  Activations out;
  out.rows = x;
  out.stride = stride;
  if (matrix.input == ProductInput::kInt8Groups) {
    auto* const groups = reinterpret_cast<ActivationGroup*>(room);
    out.groups = groups;
    out.group_stride = static_cast<size_t>(matrix.cols / kGroupColumns);
    ForEachToken(context.pool, n_tokens, [&](int32_t t, int) {
      const auto row = static_cast<size_t>(t);
      context.kernels.quantize_row(x + row * stride, matrix.cols, groups + row * out.group_stride);
    });
  } else if (matrix.input == ProductInput::kBFloat16) {
    auto* const bf16 = reinterpret_cast<uint16_t*>(room);
    out.bf16 = bf16;
    out.bf16_stride = BFloat16RowStride(matrix.cols);
    ForEachToken(context.pool, n_tokens, [&](int32_t t, int) {
      const auto row = static_cast<size_t>(t);
      RoundInput(context.kernels, x + row * stride, matrix.cols, bf16 + row * out.bf16_stride);
    });
  }
  return out;
}

}  // namespace colibri
