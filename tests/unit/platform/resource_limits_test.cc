#include "platform/resource_limits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "platform/cpu_features.h"
#include "platform/huge_pages.h"
#include "platform/thread_pool.h"

namespace colibri {
namespace {

// A /proc and a /sys/fs/cgroup of a test's own.
class ResourceLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "limitsXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    paths_.proc = root_ + "/proc";
    paths_.cgroup = root_ + "/cgroup";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root_ + "/" + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
  }

  std::string root_;
  SystemPaths paths_;
};

TEST_F(ResourceLimits, NoGroupMeansNoLimit) {
  EXPECT_FALSE(CpuQuota(paths_).has_value());
  EXPECT_FALSE(CgroupMemoryLimit(paths_).has_value());
  EXPECT_FALSE(CgroupMemoryLeft(paths_).has_value());
}

TEST_F(ResourceLimits, VersionTwoQuotaOfTheOwnGroupCounts) {
  Write("proc/self/cgroup", "0::/user/job\n");
  Write("cgroup/user/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(CpuQuota(paths_), 1.5);
}

TEST_F(ResourceLimits, VersionTwoQuotaOfAParentCounts) {
  Write("proc/self/cgroup", "0::/user/job\n");
  Write("cgroup/user/job/cpu.max", "max 100000\n");
  Write("cgroup/user/cpu.max", "300000 100000\n");
  EXPECT_EQ(CpuQuota(paths_), 3.0);
}

TEST_F(ResourceLimits, AGroupWithoutALeadingSlashIsAGroupToo) {
  Write("proc/self/cgroup", "0::job\n");
  Write("cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(CpuQuota(paths_), 2.0);
}

TEST_F(ResourceLimits, TheRootOfTheMountAnswersInAContainer) {
  Write("proc/self/cgroup", "0::/../outside\n");
  Write("cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(CpuQuota(paths_), 2.0);
}

TEST_F(ResourceLimits, VersionOneQuotaCountsAndMinusOneIsNone) {
  Write("proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n9:memory:/docker/x\n");
  Write("cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
  Write("cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(CpuQuota(paths_).has_value());
  Write("cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "50000\n");
  Write("cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(paths_), 0.5);
}

TEST_F(ResourceLimits, ThePoolOfHugePagesHasWhatIsFreeAndNotReserved) {
  paths_.sys = root_ + "/sys";
  EXPECT_EQ(FreeHugetlbBytes(paths_), 0u);
  const std::string pool = "sys/kernel/mm/hugepages/hugepages-2048kB/";
  Write(pool + "free_hugepages", "100\n");
  Write(pool + "resv_hugepages", "40\n");
  EXPECT_EQ(FreeHugetlbBytes(paths_), 60 * kHugePageBytes);
  Write(pool + "resv_hugepages", "120\n");
  EXPECT_EQ(FreeHugetlbBytes(paths_), 0u);
}

TEST_F(ResourceLimits, TheGroupsOfBothVersionsLimitThePoolOfHugePages) {
  paths_.sys = root_ + "/sys";
  Write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "100\n");
  Write("proc/self/cgroup", "0::/job\n");
  Write("cgroup/job/hugetlb.2MB.max", "max\n");
  EXPECT_EQ(FreeHugetlbBytes(paths_), 100 * kHugePageBytes);
  Write("cgroup/job/hugetlb.2MB.max", "20971520\n");
  Write("cgroup/job/hugetlb.2MB.current", "4194304\n");
  EXPECT_EQ(FreeHugetlbBytes(paths_), 8 * kHugePageBytes);
  Write("proc/self/cgroup", "3:hugetlb:/job\n");
  Write("cgroup/hugetlb/job/hugetlb.2MB.limit_in_bytes", "6291456\n");
  EXPECT_EQ(FreeHugetlbBytes(paths_), 3 * kHugePageBytes);
}

TEST_F(ResourceLimits, TheModeOfTransparentHugePagesIsTheOneInBrackets) {
  paths_.sys = root_ + "/sys";
  EXPECT_FALSE(TransparentHugePageMode(paths_).has_value());
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(TransparentHugePageMode(paths_), "madvise");
}

TEST_F(ResourceLimits, ThreadsAreTheSmallerOfMaskAndQuotaRoundedUp) {
  EXPECT_EQ(ThreadCountFor(8, std::nullopt), 8);
  EXPECT_EQ(ThreadCountFor(8, 1.5), 2);
  EXPECT_EQ(ThreadCountFor(8, 0.25), 1);
  EXPECT_EQ(ThreadCountFor(2, 16.0), 2);
  EXPECT_EQ(ThreadCountFor(0, std::nullopt), 1);
  EXPECT_EQ(ThreadCountFor(100000, std::nullopt), ThreadPool::kMaxThreads);
}

TEST_F(ResourceLimits, TheTightestMemoryLimitOfThePathCounts) {
  Write("proc/self/cgroup", "0::/user/job\n");
  Write("cgroup/user/job/memory.max", "max\n");
  Write("cgroup/user/memory.max", "4294967296\n");
  Write("cgroup/memory.max", "8589934592\n");
  EXPECT_EQ(CgroupMemoryLimit(paths_), uint64_t{4} << 30);
}

TEST_F(ResourceLimits, PageCacheThatCanGoIsNotUsed) {
  Write("proc/self/cgroup", "0::/job\n");
  Write("cgroup/job/memory.max", "1000\n");
  Write("cgroup/job/memory.current", "900\n");
  Write("cgroup/job/memory.stat", "anon 300\ninactive_file 500\n");
  EXPECT_EQ(CgroupMemoryLeft(paths_), 600u);
}

TEST_F(ResourceLimits, VersionOneMemoryWithoutALimitIsNone) {
  Write("proc/self/cgroup", "9:memory:/a\n");
  Write("cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(CgroupMemoryLimit(paths_).has_value());
  Write("cgroup/memory/memory.limit_in_bytes", "123456\n");
  EXPECT_EQ(CgroupMemoryLimit(paths_), 123456u);
}

TEST_F(ResourceLimits, MemInfoIsInBytes) {
  Write("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    500 kB\n");
  EXPECT_EQ(MemInfo(paths_, "MemTotal"), 1024000u);
  EXPECT_EQ(MemInfo(paths_, "MemAvailable"), 512000u);
  EXPECT_FALSE(MemInfo(paths_, "Mem").has_value());
}

TEST(ThisMachine, HasThreadsAndMemory) {
  EXPECT_GE(DefaultThreadCount(), 1);
  EXPECT_GT(MemoryLimitBytes(), uint64_t{1} << 20);
  EXPECT_LT(MemoryLimitBytes(), uint64_t{1} << 60);
  EXPECT_LE(AvailableMemoryBytes(), MemoryLimitBytes());
  EXPECT_FALSE(CpuName().empty());
}

TEST(CpuFeatures, NewerSetsImplyTheOlderOnes) {
  const CpuFeatures features = DetectCpuFeatures();
  EXPECT_TRUE(features.avx2 || !features.avx512);
  EXPECT_TRUE(features.avx512 || !features.avx512_vnni);
  EXPECT_TRUE(features.avx512 || !features.avx512_bf16);
  EXPECT_TRUE(features.amx || !features.amx_permitted);
  EXPECT_TRUE(features.neon || !features.dotprod);
  EXPECT_TRUE(features.dotprod || !features.i8mm);
}

}  // namespace
}  // namespace colibri
