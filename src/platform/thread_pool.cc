#include "platform/thread_pool.h"

#include <sched.h>

#include <algorithm>
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
  alignas(64) std::atomic<int64_t> next_task{0};
  // The job: written while the gate is closed and nobody is inside.
  alignas(64) int64_t n_tasks = 0;
  void (*fn)(void*, int64_t, int) = nullptr;
  void* context = nullptr;
  std::vector<std::thread> threads;

  void WorkOn(int thread) {
    for (;;) {
      const int64_t task = next_task.fetch_add(1, std::memory_order_relaxed);
      if (task >= n_tasks) return;
      fn(context, task, thread);
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

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int n_threads,
                                                       std::span<const int32_t> cpus) {
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

void ThreadPool::Run(int64_t n_tasks, void (*fn)(void*, int64_t, int), void* context) {
  if (n_tasks <= 0) return;
  State& state = *state_;
  if (n_tasks == 1 || n_threads_ == 1) {
    for (int64_t task = 0; task < n_tasks; ++task) fn(context, task, 0);
    return;
  }
  ++n_jobs_;
  state.n_tasks = n_tasks;
  state.fn = fn;
  state.context = context;
  state.next_task.store(0, std::memory_order_relaxed);
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
