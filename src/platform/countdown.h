// platform/countdown.h - tasks of a job that need the results of earlier tasks of the same job.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/check.h"
#include "platform/spin.h"

namespace colibri {

// Counts down to zero. A task of ThreadPool::ParallelFor may wait for tasks of smaller numbers
// alone: those were handed out before it, so each has ended or runs on a thread that waits for
// still smaller ones at most, and somebody always goes on. (Not of ParallelForOnNodes.)
class Countdown {
 public:
  // Before the job begins, by the caller of ParallelFor.
  void Reset(int32_t n) {
    COLIBRI_CHECK(n >= 0);
    left_.store(n, std::memory_order_relaxed);
  }
  // One less. True for the last, who sees what all others wrote before theirs.
  bool CountDown() { return left_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  // Until it is zero; what was written before is visible then. Looks without sleeping, as what it
  // waits for runs at this moment; where threads share a CPU, that one is let to it.
  void Wait() const {
    constexpr int kLooksBeforeYield = 2000;
    for (int looks = 0; left_.load(std::memory_order_acquire) > 0; ++looks) {
      if (looks < kLooksBeforeYield) {
        SpinPause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  alignas(64) std::atomic<int32_t> left_{0};
};

}  // namespace colibri
