#include "platform/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

#include "platform/countdown.h"
#include "platform/topology.h"

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

TEST(ThreadPool, PinnedWorkersRunOnTheirCpuAndTheOwnerWithinItsScope) {
  const std::vector<int32_t> all = AllowedCpus();
  const int n_threads = static_cast<int>(std::min<size_t>(all.size(), 4));
  const std::vector<int32_t> cpus(all.begin(), all.begin() + n_threads);
  auto made = ThreadPool::Create(n_threads, cpus);
  ASSERT_TRUE(made.ok());
  ThreadPool& pool = **made;
  const auto run = [&] {
    std::vector<std::vector<int32_t>> mask_of_thread(static_cast<size_t>(n_threads));
    std::atomic<int> arrived{0};
    // As many tasks as threads, that wait for each other: each thread has one.
    pool.ParallelFor(n_threads, [&](int64_t, int thread) {
      mask_of_thread[static_cast<size_t>(thread)] = AllowedCpus();
      ++arrived;
      while (arrived.load() < n_threads) std::this_thread::yield();
    });
    return mask_of_thread;
  };
  const auto outside = run();
  EXPECT_EQ(outside[0], all);
  for (size_t i = 1; i < cpus.size(); ++i) EXPECT_EQ(outside[i], std::vector<int32_t>{cpus[i]});
  EXPECT_TRUE(pool.pinned());
  {
    const ThreadPool::OwnerScope owner(pool);
    EXPECT_EQ(AllowedCpus(), std::vector<int32_t>{cpus[0]});
  }
  EXPECT_EQ(AllowedCpus(), all);
}

TEST(ThreadPool, AMaskThatLacksTheOwnersCpuIsLeftAlone) {
  const std::vector<int32_t> all = AllowedCpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const std::vector<int32_t> cpus = {all[0], all[1]};
  auto pool = ThreadPool::Create(2, cpus);
  ASSERT_TRUE(pool.ok());
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(all[1]), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    const ThreadPool::OwnerScope owner(**pool);
    EXPECT_EQ(AllowedCpus(), std::vector<int32_t>{all[1]});
  }).join();
}

TEST(ThreadPool, ParkedWorkersTakeNoTime) {
  const auto pool = MakePool(4);
  pool->ParallelFor(8, [](int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();  // of all threads of the process
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.1) << "three spinning workers would take 0.9";
}

TEST(ThreadPool, CountsTheJobsThatThreadsShare) {
  const auto pool = MakePool(2), single = MakePool(1);
  for (const int64_t n_tasks : {0, 1, 2, 5}) {
    pool->ParallelFor(n_tasks, [](int64_t, int) {});
    single->ParallelFor(n_tasks, [](int64_t, int) {});
  }
  EXPECT_EQ(pool->n_jobs(), 2u);
  EXPECT_EQ(single->n_jobs(), 0u);
}

TEST(ThreadPool, RunsEveryTaskOfEveryNodeOnce) {
  for (const std::vector<int32_t>& nodes :
       {std::vector<int32_t>{0, 1}, {0, 0, 1, 1}, {0, 1, 1, 2, 2}}) {
    const auto made = ThreadPool::Create(static_cast<int>(nodes.size()), {}, nodes);
    ASSERT_TRUE(made.ok());
    ThreadPool& pool = **made;
    const auto n_nodes = static_cast<size_t>(pool.n_nodes());
    ASSERT_EQ(pool.n_nodes(), nodes.back() + 1);
    for (int64_t n = 0; n < 40; ++n) {
      std::vector<int64_t> n_tasks(n_nodes);
      for (size_t q = 0; q < n_nodes; ++q) n_tasks[q] = q == 1 ? 0 : n;  // node 1 must steal
      std::vector<std::vector<int>> count(n_nodes, std::vector<int>(static_cast<size_t>(n), 0));
      pool.ParallelForOnNodes(n_tasks, [&](int32_t node, int64_t task, int) {
        ++count[static_cast<size_t>(node)][static_cast<size_t>(task)];
      });
      for (size_t q = 0; q < n_nodes; ++q) {
        for (const int c : count[q]) EXPECT_EQ(c, q == 1 ? 0 : 1);
      }
      // And the pool's other jobs go on as before.
      std::atomic<int64_t> sum{0};
      pool.ParallelFor(n, [&](int64_t task, int) { sum += task; });
      EXPECT_EQ(sum.load(), n * (n - 1) / 2);
    }
  }
}

TEST(ThreadPool, AThreadTakesItsOwnNodesTasksAsLongAsThereAreSome) {
  const std::vector<int32_t> nodes = {0, 0, 1, 1};
  const auto made = ThreadPool::Create(4, {}, nodes);
  ASSERT_TRUE(made.ok());
  // As many tasks on each node as it has threads, which wait for each other: nobody can take two.
  for (int job = 0; job < 200; ++job) {
    std::atomic<int> arrived{0}, elsewhere{0};
    (*made)->ParallelForOnNodes(std::vector<int64_t>{2, 2}, [&](int32_t node, int64_t, int thread) {
      if (nodes[static_cast<size_t>(thread)] != node) ++elsewhere;
      ++arrived;
      while (arrived.load() < 4) std::this_thread::yield();
    });
    EXPECT_EQ(elsewhere.load(), 0);
  }
}

TEST(Countdown, TasksSeeWhatEarlierTasksWroteThroughThousandsOfJobs) {
  for (const int n_threads : {1, 2, 5}) {
    const auto pool = MakePool(n_threads);
    constexpr int kFirst = 3, kSecond = 4;
    std::vector<int64_t> first(kFirst, 0), second(kSecond, 0);
    Countdown left;
    int64_t last = 0;
    for (int job = 1; job <= 3000; ++job) {
      left.Reset(kFirst);
      std::atomic<int> n_last{0};
      pool->ParallelFor(kFirst + kSecond, [&](int64_t task, int) {
        if (task < kFirst) {
          first[static_cast<size_t>(task)] = job * (task + 1);
          if (left.CountDown()) ++n_last;
          return;
        }
        left.Wait();
        second[static_cast<size_t>(task - kFirst)] = first[0] + first[1] + first[2];
      });
      ASSERT_EQ(n_last.load(), 1);
      for (const int64_t sum : second) ASSERT_EQ(sum, 6 * job);
      last = second[0];
    }
    EXPECT_EQ(last, 18000);
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
