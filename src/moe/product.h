// moe/product.h - rows of a weight matrix, in whatever form it lies, times the activations of some
// tokens.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "platform/thread_pool.h"
#include "tensor/matrix_view.h"

namespace colibri {

// Rows of activations as the three kinds of kernels read them. Whoever multiplies a matrix fills
// the form that its `input` names.
struct Activations {
  const float* rows = nullptr;  // [.., k], stride floats apart
  size_t stride = 0;
  const ActivationGroup* groups = nullptr;  // [.., k / 32], group_stride groups apart
  size_t group_stride = 0;
  const uint16_t* bf16 = nullptr;  // rows as BFloat16RowStride says, bf16_stride apart
  size_t bf16_stride = 0;

  Activations From(int64_t row) const {
    const auto r = static_cast<size_t>(row);
    return {rows == nullptr ? nullptr : rows + r * stride,           stride,
            groups == nullptr ? nullptr : groups + r * group_stride, group_stride,
            bf16 == nullptr ? nullptr : bf16 + r * bf16_stride,      bf16_stride};
  }
};

// The forms that some matrices read beside float32.
struct InputForms {
  bool groups = false, bf16 = false;

  void Add(const MatrixView& matrix) {
    groups = groups || matrix.input == ProductInput::kInt8Groups;
    bf16 = bf16 || matrix.input == ProductInput::kBFloat16;
  }
};

// A whole row of k activations as bfloat16, sums behind it.
inline void RoundInput(const KernelTable& kernels, const float* x, int32_t k, uint16_t* out) {
  kernels.round_row(x, k, out, reinterpret_cast<float*>(out + BFloat16RowElements(k)));
}

// Rows of a matrix that one task computes: two panels.
inline constexpr int32_t kTaskRows = 64;
static_assert(kSliceUnit % kTaskRows == 0);
// Tasks of such rows that a matrix has on a memory node.
inline int64_t TasksOn(const MatrixView& w, int32_t node, int32_t task_rows) {
  return (w.SliceEnd(node) - w.SliceBegin(node) + task_rows - 1) / task_rows;
}
// Counts of each node's runs of tasks.
using NodeCounts = std::array<int64_t, ThreadPool::kMaxNodes>;
// How tasks are dealt out: runs of neighbours, so that a thread reads on where it is, but several
// for each thread, and single tasks at the end, so that none waits long for the last.
class TaskRuns {
 public:
  TaskRuns() = default;
  TaskRuns(int64_t n_tasks, int n_threads)
      : n_tasks_(n_tasks), n_threads_(n_threads < 1 ? 1 : n_threads) {
    constexpr int64_t kTurns = 6, kMostTasks = 16;
    const int64_t share = n_tasks / (kTurns * n_threads_);
    length_ = share < 1 ? 1 : share > kMostTasks ? kMostTasks : share;
    const int64_t n_long = n_tasks / length_ - n_threads_;
    n_long_ = n_long < 0 ? 0 : n_long;
  }
  int64_t n_tasks() const { return n_tasks_; }
  int64_t count() const { return n_long_ + n_tasks_ - n_long_ * length_; }
  int64_t Begin(int64_t run) const {
    return run < n_long_ ? run * length_ : n_long_ * length_ + run - n_long_;
  }
  int64_t End(int64_t run) const { return Begin(run + 1); }
  // Where the thread of this run will probably go on, if all work at the same speed: the first task
  // of another run, or n_tasks.
  int64_t ProbablyNext(int64_t run) const {
    return run + n_threads_ < count() ? Begin(run + n_threads_) : n_tasks_;
  }

 private:
  int64_t n_tasks_ = 0, length_ = 1, n_long_ = 0;
  int n_threads_ = 1;
};

// Where a thread begins to read rows of w, or null where it can't be asked for early.
inline const uint8_t* PanelAt(const MatrixView& w, int32_t row) {
  return w.layout == Layout::kPanels ? w.row(row) : nullptr;
}

// Tokens that a thread's tile holds: whole tiles of both kinds of kernels.
inline constexpr int32_t kTaskTokens = 2 * kMatMulTokenBlock;
inline constexpr size_t kTileFloats = static_cast<size_t>(kTaskTokens) * kTaskRows;

// One thread's scratch memory, 64-byte aligned.
struct ProductScratch {
  float* matmul = nullptr;  // MatMulScratchFloats(longest row) floats
  float* tile = nullptr;    // kTileFloats floats
};

struct ProductArgs {
  const MatrixView* w = nullptr;
  int32_t first_row = 0;  // a multiple of kPanelRows
  int32_t n_rows = 0;     // at most kTaskRows
  Activations x;
  const int32_t* x_rows = nullptr;  // [n_tokens] rows of x; null: 0, 1, ...
  int32_t n_tokens = 0;
  // Element r of token t, r counted from first_row, goes to out[row * out_stride + r], where row is
  // out_rows[t], or t where that is null.
  float* out = nullptr;
  size_t out_stride = 0;
  const int32_t* out_rows = nullptr;
  const float* bias = nullptr;        // [n_rows] added to each product, or null
  const float* out_weight = nullptr;  // null: out is overwritten; else out_weight[t] times the
                                      // product is added to it
  const uint8_t* next = nullptr;      // what this thread will read next, or null
};

// Computes it. An element's bits depend on its row, its token and the table alone. Without memory
// of its own; safe from many threads on different outputs and scratch.
void Multiply(const KernelTable& kernels, const ProductArgs& args, const ProductScratch& scratch);

}  // namespace colibri
