#include "moe/expert_gemm.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/finite.h"

namespace colibri {
namespace {

int64_t TasksOn(const ExpertGroup& group, int32_t node) {
  return TasksOn(group.weights->gate, node, kTaskRows);
}

// Some rows of a group's gate and up, on one node.
struct Task {
  const ExpertGroup* group = nullptr;
  int32_t node = 0;
  int32_t first_row = 0;
  int32_t n_rows() const {
    return std::min(kTaskRows, group->weights->gate.SliceEnd(node) - first_row);
  }
};

// A task in a node's queue over all groups, and the way from one to the next. Groups are few and
// tasks long, so a walk is cheap.
Task FindTask(std::span<const ExpertGroup> groups, int32_t node, int64_t task) {
  size_t g = 0;
  while (task >= TasksOn(groups[g], node)) task -= TasksOn(groups[g++], node);
  return {&groups[g], node,
          groups[g].weights->gate.SliceBegin(node) + static_cast<int32_t>(task * kTaskRows)};
}
// A task whose group is behind the last one, where there are no more.
Task After(const Task& task, std::span<const ExpertGroup> groups) {
  const int32_t next = task.first_row + kTaskRows;
  if (next < task.group->weights->gate.SliceEnd(task.node)) return {task.group, task.node, next};
  const ExpertGroup* const end = groups.data() + groups.size();
  const ExpertGroup* group = task.group + 1;
  while (group != end && TasksOn(*group, task.node) == 0) ++group;
  return {group, task.node, group == end ? 0 : group->weights->gate.SliceBegin(task.node)};
}

class GateUpTask {
 public:
  GateUpTask(const KernelTable& kernels, const Task& task, const GatedActivationArgs& activation,
             const Activations& x, GatedRows gated, const ThreadScratch& scratch, int thread,
             const uint8_t* next)
      : kernels_(kernels),
        task_(task),
        n_rows_(task.n_rows()),
        next_(next),
        activation_(activation),
        x_(x),
        gated_(gated),
        scratch_(scratch),
        thread_(thread) {}

  void Run() {
    for (int32_t first = 0; first < task_.group->n_tokens; first += kTaskTokens)
      RunTokens(first, std::min(kTaskTokens, task_.group->n_tokens - first));
  }

 private:
  void RunTokens(int32_t first, int32_t n_tokens) {
    const FfnWeights& w = *task_.group->weights;
    float* const gate = scratch_.tile(thread_, 1);  // [kTaskTokens, kTaskRows]
    float* const up = scratch_.tile(thread_, 2);
    const bool is_last = first + n_tokens == task_.group->n_tokens;
    Product(w.gate, w.gate_bias, first, n_tokens, gate, PanelAt(w.up, task_.first_row));
    Product(w.up, w.up_bias, first, n_tokens, up, is_last ? next_ : nullptr);
    const auto n = static_cast<size_t>(n_rows_);
    for (int32_t t = 0; t < n_tokens; ++t) {
      float* const row = gate + static_cast<size_t>(t) * kTaskRows;
      const int64_t gated_row = static_cast<int64_t>(task_.group->first_row) + first + t;
      const ProductInput form = w.down.input;
      float* const activated =
          form == ProductInput::kFloat32 ? gated_.of(gated_row) + task_.first_row : row;
      kernels_.gated_activation(activation_, row, up + static_cast<size_t>(t) * kTaskRows, n,
                                activated);
      if (form == ProductInput::kInt8Groups) {
        kernels_.quantize_row(row, n_rows_,
                              gated_.groups_of(gated_row) + task_.first_row / kGroupColumns);
      } else if (form == ProductInput::kBFloat16) {
        kernels_.round_row(
            row, n_rows_, gated_.bf16_of(gated_row) + task_.first_row,
            gated_.sums_of(gated_row, w.down.cols) + 2 * (task_.first_row / kGroupColumns));
      }
    }
  }

  void Product(const MatrixView& w, const float* bias, int32_t first, int32_t n_tokens, float* out,
               const uint8_t* next) {
    ProductArgs args;
    args.w = &w;
    args.first_row = task_.first_row;
    args.n_rows = n_rows_;
    const int32_t* const rows = task_.group->token_rows;
    args.x = rows == nullptr ? x_.From(first) : x_;
    args.x_rows = rows == nullptr ? nullptr : rows + first;
    args.n_tokens = n_tokens;
    args.out = out;
    args.out_stride = kTaskRows;
    args.bias = bias == nullptr ? nullptr : bias + task_.first_row;
    args.next = next;
    Multiply(kernels_, args, scratch_.of(thread_));
  }

  const KernelTable& kernels_;
  const Task task_;
  const int32_t n_rows_;
  const uint8_t* const next_;  // what this thread reads afterwards
  const GatedActivationArgs& activation_;
  const Activations& x_;
  const GatedRows gated_;
  const ThreadScratch& scratch_;
  const int thread_;
};

// Some columns of a token's answer to its residual.
void AddColumns(const KernelTable& kernels, const float* answer, size_t n, const ResidualAdd& add,
                float* residual, int32_t token) {
  kernels.axpy(add.scale, answer, n, residual);
  if (AllFinite(residual, n)) return;
  // Tasks of other columns may say the same of this token now.
  std::atomic_ref<uint8_t>(add.not_finite[token]).store(1, std::memory_order_relaxed);
}

}  // namespace

void ExpertGateUp(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                  const GatedActivationArgs& activation, const Activations& x, GatedRows gated,
                  const ThreadScratch& scratch) {
  NodeCounts n_runs{};
  std::array<TaskRuns, ThreadPool::kMaxNodes> runs_on;
  const auto n_nodes = static_cast<size_t>(pool.n_nodes());
  for (const ExpertGroup& group : groups)
    COLIBRI_CHECK(gated.stride >= GatedRows::StrideOf(group.weights->down.cols));
  for (size_t n = 0; n < n_nodes; ++n) {
    int64_t n_tasks = 0;
    for (const ExpertGroup& group : groups) n_tasks += TasksOn(group, static_cast<int32_t>(n));
    runs_on[n] = TaskRuns(n_tasks, pool.threads_on(static_cast<int32_t>(n)));
    n_runs[n] = runs_on[n].count();
  }
  pool.ParallelForOnNodes(
      std::span(n_runs).first(n_nodes), [&](int32_t node, int64_t run, int thread) {
        const TaskRuns& runs = runs_on[static_cast<size_t>(node)];
        const int64_t end = runs.End(run), later = runs.ProbablyNext(run);
        Task task = FindTask(groups, node, runs.Begin(run));
        for (int64_t i = runs.Begin(run); i < end; ++i) {
          const bool is_last = i + 1 == end;
          const Task next = !is_last                 ? After(task, groups)
                            : later < runs.n_tasks() ? FindTask(groups, node, later)
                                                     : Task{};
          const uint8_t* const reads_next =
              next.group == nullptr ? nullptr : PanelAt(next.group->weights->gate, next.first_row);
          GateUpTask(kernels, task, activation, x, gated, scratch, thread, reads_next).Run();
          task = next;
        }
      });
}

void ExpertDown(const KernelTable& kernels, ThreadPool& pool, std::span<const ExpertGroup> groups,
                GatedRows gated, int32_t n_tokens, int32_t hidden, float* out, size_t out_stride,
                const ThreadScratch& scratch, const ResidualAdd& add) {
  // Every group has some rows of each task: fewer rows where there are too few tasks for all.
  const int32_t task_rows = hidden / kTaskRows < 4 * pool.n_threads() ? kPanelRows : kTaskRows;
  COLIBRI_CHECK(!groups.empty());
  // All groups have the same rows on a node: they have as many.
  const MatrixView& rows_of = groups[0].weights->down;
  NodeCounts n_tasks{};
  const auto n_nodes = static_cast<size_t>(pool.n_nodes());
  for (size_t n = 0; n < n_nodes; ++n)
    n_tasks[n] = TasksOn(rows_of, static_cast<int32_t>(n), task_rows);
  const bool adds = groups[0].out_weight != nullptr;
  COLIBRI_CHECK(adds || groups.size() == 1);
  const bool kept = add.rows != nullptr;
  COLIBRI_CHECK(kept ? n_tokens <= scratch.answer_tokens : out != nullptr);
  const auto compute = [&](int32_t node, int64_t task, int thread) {
    const int32_t first_row = rows_of.SliceBegin(node) + static_cast<int32_t>(task) * task_rows;
    const int32_t n_rows = std::min(task_rows, rows_of.SliceEnd(node) - first_row);
    // Rows of the answer are far apart, at a distance that is often a power of two: their lines
    // share few sets of the caches, from where each expert's addition would push them out again.
    // The sums of a task's few columns stay together instead until they are whole.
    float* const sums = kept ? scratch.answer(thread) : out + first_row;
    const size_t stride = kept ? static_cast<size_t>(kTaskRows) : out_stride;
    for (int32_t t = 0; adds && t < n_tokens; ++t)
      std::fill_n(sums + static_cast<size_t>(t) * stride, n_rows, 0.0f);
    for (size_t g = 0; g < groups.size(); ++g) {
      const ExpertGroup& group = groups[g];
      const MatrixView& w = group.weights->down;
      const float* const bias = group.weights->down_bias;
      ProductArgs args;
      args.w = &w;
      args.first_row = first_row;
      args.n_rows = n_rows;
      args.x = gated.From(group.first_row);
      args.n_tokens = group.n_tokens;
      args.out = sums;
      args.out_stride = stride;
      args.out_rows = group.token_rows;
      args.bias = bias == nullptr ? nullptr : bias + first_row;
      args.out_weight = group.out_weight;
      // Behind the last group, what this thread will probably go on with.
      const int32_t next_row =
          g + 1 < groups.size() ? first_row : first_row + task_rows * pool.threads_on(node);
      const MatrixView& next = groups[g + 1 < groups.size() ? g + 1 : 0].weights->down;
      if (next_row < rows_of.SliceEnd(node)) args.next = PanelAt(next, next_row);
      Multiply(kernels, args, scratch.of(thread));
    }
    for (int32_t t = 0; kept && t < n_tokens; ++t) {
      const float* const answer = sums + static_cast<size_t>(t) * stride;
      const size_t at = static_cast<size_t>(t) * out_stride + static_cast<size_t>(first_row);
      if (out != nullptr) std::copy_n(answer, n_rows, out + at);
      AddColumns(kernels, answer, static_cast<size_t>(n_rows), add, add.rows + at, t);
    }
  };
  pool.ParallelForOnNodes(std::span(n_tasks).first(n_nodes), compute);
}

}  // namespace colibri
