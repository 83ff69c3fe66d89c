#include "platform/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace colibri {
namespace {

std::unique_ptr<ThreadPool> MakePool(int n_threads) {
  auto pool = ThreadPool::Create(n_threads);
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  return std::move(pool).value();
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int n_threads : {1, 2, 3, 8}) {
    const auto pool = MakePool(n_threads);
    for (const int64_t n_tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> count(static_cast<size_t>(n_tasks), 0);
      pool->ParallelFor(n_tasks, [&](int64_t task, int) { ++count[static_cast<size_t>(task)]; });
      for (const int c : count) EXPECT_EQ(c, 1);
    }
  }
}

TEST(ThreadPool, NamesThreadsBelowItsSize) {
  const auto pool = MakePool(4);
  std::atomic<int> bad{0};
  pool->ParallelFor(1000, [&](int64_t, int thread) {
    if (thread < 0 || thread >= 4) ++bad;
  });
  EXPECT_EQ(bad.load(), 0);
}

TEST(ThreadPool, GivesEachThreadItsOwnNumber) {
  const auto pool = MakePool(3);
  std::vector<std::atomic<int>> inside(3);
  std::atomic<int> shared{0};
  pool->ParallelFor(3000, [&](int64_t, int thread) {
    auto& mine = inside[static_cast<size_t>(thread)];
    if (mine.fetch_add(1) != 0) ++shared;
    mine.fetch_sub(1);
  });
  EXPECT_EQ(shared.load(), 0);
}

TEST(ThreadPool, RunsASingleTaskOnTheCaller) {
  const auto pool = MakePool(4);
  std::thread::id id;
  pool->ParallelFor(1, [&](int64_t, int thread) {
    id = std::this_thread::get_id();
    EXPECT_EQ(thread, 0);
  });
  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST(ThreadPool, WritesOfTasksAreVisibleToTheCallerThroughThousandsOfJobs) {
  const auto pool = MakePool(3);
  std::vector<int64_t> value(5, 0);
  for (int job = 0; job < 20000; ++job) {
    pool->ParallelFor(5, [&](int64_t task, int) { value[static_cast<size_t>(task)] += task; });
  }
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(value[static_cast<size_t>(i)], 20000 * i);
}

TEST(ThreadPool, ParkedWorkersComeBackToWork) {
  const auto pool = MakePool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    // Two tasks that wait for each other end only when two threads run them.
    std::atomic<int> arrived{0};
    pool->ParallelFor(2, [&](int64_t, int) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, EndsWhileItsWorkersAreParkedOrSpinning) {
  for (int round = 0; round < 50; ++round) {
    const auto pool = MakePool(4);
    if (round % 2 == 0) pool->ParallelFor(8, [](int64_t, int) {});
    if (round % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ThreadPool, RefusesSizesItCannotHave) {
  for (const int n : {-1, 0, ThreadPool::kMaxThreads + 1}) {
    const auto pool = ThreadPool::Create(n);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace colibri
