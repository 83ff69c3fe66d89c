#include "model/linear.h"

#include <algorithm>

#include "model/failure_probe.h"

namespace colibri {
namespace {

int64_t TasksOn(const LinearJob& job, int32_t node) {
  return TasksOn(job.weights->matrix, node, kTaskRows);
}

// Some rows of a job, on one node, and the way to the next ones.
struct Task {
  const LinearJob* job = nullptr;
  int32_t node = 0;
  int64_t index = 0;  // among the job's on the node
  int32_t first_row() const {
    return job->weights->matrix.SliceBegin(node) + static_cast<int32_t>(index * kTaskRows);
  }
};
Task FindTask(std::span<const LinearJob> jobs, int32_t node, int64_t index) {
  size_t j = 0;
  while (index >= TasksOn(jobs[j], node)) index -= TasksOn(jobs[j++], node);
  return {&jobs[j], node, index};
}
// A task whose job is behind the last one, where there are no more.
Task After(const Task& task, std::span<const LinearJob> jobs) {
  if (task.index + 1 < TasksOn(*task.job, task.node)) return {task.job, task.node, task.index + 1};
  const LinearJob* const end = jobs.data() + jobs.size();
  const LinearJob* job = task.job + 1;
  while (job != end && TasksOn(*job, task.node) == 0) ++job;
  return {job, task.node, 0};
}
const uint8_t* StartOf(const Task& task) {
  return PanelAt(task.job->weights->matrix, task.first_row());
}

void ComputeTask(const KernelTable& kernels, const Task& task, int32_t n_tokens,
                 const uint8_t* next, const ProductScratch& scratch) {
  const LinearJob& job = *task.job;
  const MatrixView& w = job.weights->matrix;
  ProductArgs args;
  args.w = &w;
  args.first_row = task.first_row();
  args.n_rows = std::min(kTaskRows, w.SliceEnd(task.node) - args.first_row);
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
  NodeCounts n_runs{};
  std::array<TaskRuns, ThreadPool::kMaxNodes> runs_on;
  const auto n_nodes = static_cast<size_t>(context.pool.n_nodes());
  for (size_t n = 0; n < n_nodes; ++n) {
    int64_t n_tasks = 0;
    for (const LinearJob& job : jobs) n_tasks += TasksOn(job, static_cast<int32_t>(n));
    runs_on[n] = TaskRuns(n_tasks, context.pool.threads_on(static_cast<int32_t>(n)));
    n_runs[n] = runs_on[n].count();
  }
  context.pool.ParallelForOnNodes(
      std::span(n_runs).first(n_nodes), [&](int32_t node, int64_t run, int thread) {
        const TaskRuns& runs = runs_on[static_cast<size_t>(node)];
        const int64_t end = runs.End(run), later = runs.ProbablyNext(run);
        Task task = FindTask(jobs, node, runs.Begin(run));
        for (int64_t i = runs.Begin(run); i < end; ++i) {
          const bool is_last = i + 1 == end;
          const Task next = !is_last                 ? After(task, jobs)
                            : later < runs.n_tasks() ? FindTask(jobs, node, later)
                                                     : Task{};
          ComputeTask(context.kernels, task, n_tokens,
                      next.job == nullptr ? nullptr : StartOf(next), scratch.of(thread));
          task = next;
        }
      });
  if (context.probe == nullptr) return;
  for (const LinearJob& job : jobs)
    context.probe->LookAtProduct(*job.weights, job.out, n_tokens, job.out_stride);
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
