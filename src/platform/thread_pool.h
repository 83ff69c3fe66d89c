// platform/thread_pool.h - one pool of threads for all work of an engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "base/status.h"

namespace colibri {

// n_threads workers, of which the caller of ParallelFor is one. Workers spin a short while after
// work, then park. One ParallelFor at a time (one owner thread); nothing allocates after
// construction. There is no lock: a job opens and closes with one atomic word, tasks are handed out
// by another, and only who parks or wakes the parked calls the system (a futex).
class ThreadPool {
 public:
  // 1 <= n_threads <= kMaxThreads. Fails with ResourceExhausted when the system refuses a thread.
  //   cpus  [n_threads] the only CPU of each, or empty: the system chooses. The owner runs on the
  //         first one within an OwnerScope alone: its thread is not the pool's.
  //   nodes  [n_threads] the memory node of each, below kMaxNodes; empty: all are 0
  static Result<std::unique_ptr<ThreadPool>> Create(int n_threads,
                                                    std::span<const int32_t> cpus = {},
                                                    std::span<const int32_t> nodes = {});
  static constexpr int32_t kMaxNodes = 16;
  static constexpr int kMaxThreads = 1024;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Keeps the calling thread on the owner's CPU while it lives, if the pool has CPUs and this one
  // is in the thread's mask; gives the thread its mask back.
  class OwnerScope {
   public:
    explicit OwnerScope(ThreadPool& pool);
    ~OwnerScope();
    OwnerScope(const OwnerScope&) = delete;
    OwnerScope& operator=(const OwnerScope&) = delete;

   private:
    ThreadPool& pool_;
    bool pinned_ = false;
  };

  int n_threads() const { return n_threads_; }
  // Of its threads' memory.
  int32_t n_nodes() const { return n_nodes_; }
  // Threads whose node it is; 0 where none has it.
  int threads_on(int32_t node) const;
  // Whether every worker has a CPU of its own: asked for, and the system agreed.
  bool pinned() const;
  // Jobs that all threads began and ended together, since the pool was made: those of one task or
  // one thread are none.
  uint64_t n_jobs() const { return n_jobs_; }

  // Calls fn(int64_t task, int thread) once for each task in [0, n_tasks), tasks handed out in
  // order, `thread` in [0, n_threads()) naming the worker (for per-thread scratch). Returns when
  // all are done; what tasks wrote is visible to the caller. fn must not throw.
  template <typename F>
  void ParallelFor(int64_t n_tasks, F&& fn) {
    using Fn = std::remove_reference_t<F>;
    Run(
        {&n_tasks, 1},
        [](void* context, int32_t, int64_t task, int thread) {
          (*static_cast<Fn*>(context))(task, thread);
        },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

  // The same for tasks whose data lies on nodes: calls fn(int32_t node, int64_t task, int thread)
  // for each task in [0, n_tasks_on[node]) of each node. A thread takes those of its own node, in
  // order, and of the others when it finds none there any more.
  //   n_tasks_on  [n_nodes()]
  template <typename F>
  void ParallelForOnNodes(std::span<const int64_t> n_tasks_on, F&& fn) {
    using Fn = std::remove_reference_t<F>;
    Run(
        n_tasks_on,
        [](void* context, int32_t node, int64_t task, int thread) {
          (*static_cast<Fn*>(context))(node, task, thread);
        },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using TaskFn = void (*)(void* context, int32_t queue, int64_t task, int thread);
  explicit ThreadPool(int n_threads);
  void Run(std::span<const int64_t> n_tasks, TaskFn fn, void* context);

  int n_threads_;
  int32_t n_nodes_ = 1;
  uint64_t n_jobs_ = 0;
  struct State;
  std::unique_ptr<State> state_;
};

// min(CPUs in this thread's affinity mask, CPU quota of the cgroup rounded up), at least 1.
int DefaultThreadCount();

// The smaller of physical memory and the cgroup's limit, in bytes.
uint64_t MemoryLimitBytes();
// What of it can still be taken without swapping: MemAvailable, capped by what the cgroup leaves.
uint64_t AvailableMemoryBytes();

}  // namespace colibri
