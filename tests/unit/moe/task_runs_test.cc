#include <gtest/gtest.h>

#include "moe/product.h"

namespace colibri {
namespace {

TEST(TaskRuns, DealOutEveryTaskOnceAndInOrder) {
  for (const int n_threads : {0, 1, 2, 7, 64}) {
    for (int64_t n_tasks = 0; n_tasks < 3000; n_tasks += n_tasks < 200 ? 1 : 97) {
      const TaskRuns runs(n_tasks, n_threads);
      int64_t expected = 0;
      for (int64_t run = 0; run < runs.count(); ++run) {
        ASSERT_EQ(runs.Begin(run), expected) << n_tasks << " tasks, " << n_threads << " threads";
        ASSERT_GT(runs.End(run), runs.Begin(run));
        expected = runs.End(run);
        const int64_t next = runs.ProbablyNext(run);
        ASSERT_TRUE(next >= expected && next <= n_tasks);
      }
      ASSERT_EQ(expected, n_tasks);
    }
  }
}

// A thread that takes the last run keeps the others waiting for one task.
TEST(TaskRuns, EndWithSingleTasks) {
  for (const int n_threads : {1, 2, 8}) {
    const TaskRuns runs(1000, n_threads);
    ASSERT_GT(runs.End(0) - runs.Begin(0), 1);
    for (int64_t i = 1; i <= n_threads; ++i) {
      const int64_t run = runs.count() - i;
      EXPECT_EQ(runs.End(run) - runs.Begin(run), 1);
    }
  }
}

}  // namespace
}  // namespace colibri
