#include "platform/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "platform/spin.h"

namespace colibri {
namespace {

// The gate: one word that says which job is open and how many workers are inside it. A worker may
// only enter while the job is open, so the caller never waits for one that slept through it.
constexpr uint32_t kInsideMask = (1u << 11) - 1;  // counts to kMaxThreads
constexpr uint32_t kOpen = 1u << 11;
constexpr uint32_t kJob = 1u << 12;  // a job's number: the bits from here on
static_assert(ThreadPool::kMaxThreads <= static_cast<int>(kInsideMask));

uint32_t JobNumber(uint32_t gate) {
  return gate / kJob;
}

// How long a thread looks for work before it parks: longer than the gaps between the steps of one
// forward pass, short enough to leave an idle machine alone.
constexpr std::chrono::microseconds kSpinTime{60};

// Spins until done() or until the time is over; returns whether it was done.
template <typename Done>
bool SpinUntil(Done&& done) {
  constexpr int kPausesPerClockRead = 32;
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      SpinPause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// CPUs of a thread, with room for every number that the kernel knows.
class CpuMask {
 public:
  static constexpr int kBits = CPU_SETSIZE * 8;
  CpuMask() : set_(CPU_ALLOC(kBits)) {
    COLIBRI_CHECK(set_ != nullptr);
    CPU_ZERO_S(kBytes, set_);
  }
  explicit CpuMask(int32_t cpu) : CpuMask() { Add(cpu); }
  ~CpuMask() { CPU_FREE(set_); }
  CpuMask(const CpuMask&) = delete;
  CpuMask& operator=(const CpuMask&) = delete;

  void Add(int32_t cpu) { CPU_SET_S(static_cast<size_t>(cpu), kBytes, set_); }
  bool Has(int32_t cpu) const { return CPU_ISSET_S(static_cast<size_t>(cpu), kBytes, set_) != 0; }
  // The calling thread's mask, from and to the system.
  bool Get() { return sched_getaffinity(0, kBytes, set_) == 0; }
  bool Set() const { return sched_setaffinity(0, kBytes, set_) == 0; }

 private:
  static constexpr size_t kBytes = CPU_ALLOC_SIZE(kBits);
  cpu_set_t* set_;
};

}  // namespace

struct ThreadPool::State {
  std::vector<int32_t> cpus;  // [n_threads], or empty
  std::atomic<int32_t> n_pin_failures{0};
  CpuMask owner_cpu, owner_before;  // of OwnerScope: what it sets and what it gives back
  alignas(64) std::atomic<uint32_t> gate{0};
  std::atomic<int32_t> n_parked{0};
  std::atomic<bool> stop{false};
  // Tasks are numbered within a queue; most jobs have one.
  struct alignas(64) Queue {
    std::atomic<int64_t> next{0};
    int64_t n_tasks = 0;
  };
  std::array<Queue, kMaxNodes> queues;
  std::vector<int32_t> nodes;  // [n_threads] whose queue each looks at first; or empty
  // The job: written while the gate is closed and nobody is inside.
  alignas(64) size_t n_queues = 1;
  TaskFn fn = nullptr;
  void* context = nullptr;
  std::vector<std::thread> threads;

  void WorkOn(int thread) {
    size_t q = n_queues == 1 ? 0 : static_cast<size_t>(nodes[static_cast<size_t>(thread)]);
    for (size_t seen = 0; seen < n_queues; ++seen) {
      Queue& queue = queues[q];
      for (;;) {
        const int64_t task = queue.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= queue.n_tasks) break;
        fn(context, static_cast<int32_t>(q), task, thread);
      }
      q = q + 1 == n_queues ? 0 : q + 1;
    }
  }

  // Sleeps while the gate still reads `seen`.
  void Park(uint32_t seen) {
    n_parked.fetch_add(1);
    if (gate.load() == seen && !stop.load()) gate.wait(seen);
    n_parked.fetch_sub(1);
  }

  void Wake() {
    if (n_parked.load() > 0) gate.notify_all();
  }

  void WorkerLoop(int thread) {
    if (!cpus.empty() && !CpuMask(cpus[static_cast<size_t>(thread)]).Set())
      n_pin_failures.fetch_add(1);
    uint32_t last_job = 0;
    for (;;) {
      uint32_t seen = 0;
      const auto has_news = [&] {
        seen = gate.load();
        return stop.load() || ((seen & kOpen) != 0 && JobNumber(seen) != last_job);
      };
      while (!SpinUntil(has_news)) Park(seen);
      if (stop.load()) return;
      // `seen` is an open job of which this worker had no part yet; it may close meanwhile.
      if (!gate.compare_exchange_weak(seen, seen + 1)) continue;
      last_job = JobNumber(seen);
      WorkOn(thread);
      const uint32_t left = gate.fetch_sub(1) - 1;
      if ((left & (kOpen | kInsideMask)) == 0) Wake();
    }
  }

  void Stop() {
    stop.store(true);
    // A changed gate, so that a thread between its look and its sleep does not sleep.
    gate.fetch_add(kJob);
    gate.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads), state_(std::make_unique<State>()) {
}

ThreadPool::~ThreadPool() {
  state_->Stop();
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int n_threads, std::span<const int32_t> cpus,
                                                       std::span<const int32_t> nodes) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    return InvalidArgument(
        StrCat("a thread pool needs 1 to ", kMaxThreads, " threads, not ", n_threads));
  }
  std::unique_ptr<ThreadPool> pool(new ThreadPool(n_threads));
  State& state = *pool->state_;
  const auto is_cpu = [](int32_t cpu) { return cpu >= 0 && cpu < CpuMask::kBits; };
  COLIBRI_CHECK(cpus.empty() || cpus.size() == static_cast<size_t>(n_threads));
  if (std::all_of(cpus.begin(), cpus.end(), is_cpu)) state.cpus.assign(cpus.begin(), cpus.end());
  if (!state.cpus.empty()) state.owner_cpu.Add(state.cpus[0]);
  COLIBRI_CHECK(nodes.empty() || nodes.size() == static_cast<size_t>(n_threads));
  state.nodes.assign(nodes.begin(), nodes.end());
  for (const int32_t node : nodes) {
    COLIBRI_CHECK(node >= 0 && node < kMaxNodes);
    pool->n_nodes_ = std::max(pool->n_nodes_, node + 1);
  }
  state.threads.reserve(static_cast<size_t>(n_threads - 1));
  for (int thread = 1; thread < n_threads; ++thread) {
    try {
      state.threads.emplace_back([&state, thread] { state.WorkerLoop(thread); });
    } catch (const std::system_error& error) {
      return ResourceExhausted(StrCat("the system refused thread ", thread + 1, " of ", n_threads,
                                      ": ", std::string_view(error.what())));
    }
  }
  return pool;
}

int ThreadPool::threads_on(int32_t node) const {
  const std::vector<int32_t>& nodes = state_->nodes;
  if (nodes.empty()) return node == 0 ? n_threads_ : 0;
  return static_cast<int>(std::count(nodes.begin(), nodes.end(), node));
}

bool ThreadPool::pinned() const {
  return !state_->cpus.empty() && state_->n_pin_failures.load() == 0;
}

ThreadPool::OwnerScope::OwnerScope(ThreadPool& pool) : pool_(pool) {
  State& state = *pool_.state_;
  if (state.cpus.empty()) return;
  const int32_t cpu = state.cpus[0];
  if (!state.owner_before.Get() || !state.owner_before.Has(cpu)) return;
  pinned_ = state.owner_cpu.Set();
}

ThreadPool::OwnerScope::~OwnerScope() {
  if (pinned_) (void)pool_.state_->owner_before.Set();
}

void ThreadPool::Run(std::span<const int64_t> n_tasks, TaskFn fn, void* context) {
  COLIBRI_CHECK(n_tasks.size() == 1 || n_tasks.size() == static_cast<size_t>(n_nodes_));
  int64_t n_all = 0;
  for (const int64_t n : n_tasks) n_all += std::max<int64_t>(n, 0);
  if (n_all <= 1 || n_threads_ == 1) {
    for (size_t q = 0; q < n_tasks.size(); ++q) {
      for (int64_t task = 0; task < n_tasks[q]; ++task)
        fn(context, static_cast<int32_t>(q), task, 0);
    }
    return;
  }
  State& state = *state_;
  ++n_jobs_;
  state.n_queues = n_tasks.size();
  for (size_t q = 0; q < n_tasks.size(); ++q) {
    state.queues[q].n_tasks = n_tasks[q];
    state.queues[q].next.store(0, std::memory_order_relaxed);
  }
  state.fn = fn;
  state.context = context;
  const uint32_t job = JobNumber(state.gate.load()) + 1;
  state.gate.store(job * kJob | kOpen);
  state.Wake();

  state.WorkOn(0);

  uint32_t seen = state.gate.fetch_and(~kOpen) & ~kOpen;
  const auto is_empty = [&] {
    seen = state.gate.load();
    return (seen & kInsideMask) == 0;
  };
  while (!SpinUntil(is_empty)) state.Park(seen);
}

}  // namespace colibri
