#include "platform/thread_pool.h"

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

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

}  // namespace

struct ThreadPool::State {
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

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int n_threads) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    return InvalidArgument(
        StrCat("a thread pool needs 1 to ", kMaxThreads, " threads, not ", n_threads));
  }
  std::unique_ptr<ThreadPool> pool(new ThreadPool(n_threads));
  State& state = *pool->state_;
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
