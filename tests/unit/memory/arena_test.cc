#include "memory/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "memory/scratch.h"
#include "platform/huge_pages.h"

namespace colibri {
namespace {

Arena MakeArena(uint64_t n_bytes) {
  auto arena = Arena::Create(n_bytes);
  EXPECT_TRUE(arena.ok()) << arena.status().ToString();
  return std::move(arena).value();
}

TEST(Arena, GivesZeroedAlignedMemoryOfAtLeastTheSize) {
  for (const uint64_t n : {uint64_t{1}, uint64_t{4096}, uint64_t{100000}, uint64_t{5} << 20}) {
    Arena arena = MakeArena(n);
    EXPECT_GE(arena.size(), n);
    uint8_t* const data = arena.Allocate(n);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    for (uint64_t i = 0; i < n; i += 511) EXPECT_EQ(data[i], 0);
    data[n - 1] = 1;
  }
}

TEST(Arena, BigOnesBeginOnAHugePage) {
  Arena arena = MakeArena(uint64_t{3} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % (2 << 20), 0u);
}

// A system of a test's own: what it says of its huge pages.
class HugePages : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = uint64_t{64} << 20;

  void SetUp() override {
    std::string name = ::testing::TempDir() + "pagesXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    paths_.sys = root_ + "/sys";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root_ + "/" + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
  }
  void WriteMode(const std::string& text) {
    Write("sys/kernel/mm/transparent_hugepage/enabled", text);
  }
  // An arena of kBytes, all of it touched.
  Arena Touched() {
    auto arena = Arena::Create(kBytes, paths_);
    EXPECT_TRUE(arena.ok()) << arena.status().ToString();
    std::memset(arena->Allocate(kBytes), 1, kBytes);
    return std::move(arena).value();
  }

  std::string root_;
  SystemPaths paths_;
};

TEST_F(HugePages, AreObtainedWhereTheSystemGivesThem) {
  const auto mode = TransparentHugePageMode({});
  if (!mode || *mode == "never" || FreeHugetlbBytes({}) >= kBytes)
    GTEST_SKIP() << "no transparent huge pages here";
  Arena arena = MakeArena(kBytes);
  std::memset(arena.Allocate(kBytes), 1, kBytes);
  const PageUsage usage = arena.MeasurePages();
  EXPECT_EQ(usage.kind, PageKind::kTransparent);
  EXPECT_EQ(usage.bytes, kBytes);
  // A machine whose memory is cut up may have few.
  EXPECT_TRUE(usage.huge_bytes > 0 || !usage.refusal.empty()) << usage.ToString();
}

TEST_F(HugePages, RefusedOnesAreSaid) {
  WriteMode("always madvise [never]\n");
  const PageUsage usage = Touched().MeasurePages(paths_);
  EXPECT_EQ(usage.kind, PageKind::kSmall);
  EXPECT_NE(usage.ToString().find("transparent_hugepage/enabled says never"), std::string::npos)
      << usage.ToString();
}

TEST_F(HugePages, AKernelWithoutThemIsSaid) {
  const PageUsage usage = Touched().MeasurePages(paths_);
  EXPECT_NE(usage.ToString().find("no transparent huge pages"), std::string::npos)
      << usage.ToString();
}

TEST_F(HugePages, ASmapsWithFewOfThemIsSaid) {
  WriteMode("always [madvise] never\n");
  paths_.proc = root_ + "/proc";
  const Arena arena = Touched();
  EXPECT_EQ(arena.MeasurePages(paths_).refusal, "/proc/self/smaps does not tell");
  std::ostringstream begin, end;
  begin << std::hex << reinterpret_cast<uintptr_t>(arena.data());
  end << std::hex << reinterpret_cast<uintptr_t>(arena.data()) + arena.size();
  const std::string mapping = begin.str() + "-" + end.str() + " rw-p 00000000 00:00 0 \n";
  Write("proc/self/smaps", mapping +
                               "AnonHugePages:      2048 kB\nVmFlags: rd wr\n"
                               "7fff00000000-7fff00001000 rw-p 00000000 00:00 0 \n"
                               "AnonHugePages:      4096 kB\n");
  const PageUsage few = arena.MeasurePages(paths_);
  EXPECT_EQ(few.huge_bytes, uint64_t{2} << 20);
  EXPECT_EQ(few.refusal, "the kernel gave no more of them");
  Write("proc/self/smaps", mapping + "AnonHugePages:     65536 kB\n");
  EXPECT_EQ(arena.MeasurePages(paths_).ToString(),
            "64.0 MiB of 64.0 MiB on 2 MiB pages (transparent huge pages)");
}

// The pool says that it has pages, and the mapping fails all the same: somebody was faster.
TEST_F(HugePages, AnEmptyPoolGivesWayToTransparentOnes) {
  if (FreeHugetlbBytes({}) >= kBytes) GTEST_SKIP() << "this machine's pool has pages";
  WriteMode("always [madvise] never\n");
  Write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "1000\n");
  const Arena arena = Touched();
  EXPECT_EQ(arena.page_kind(), PageKind::kTransparent);
}

TEST_F(HugePages, OfThePoolAreTakenWhereItHasEnough) {
  if (FreeHugetlbBytes({}) < kBytes) GTEST_SKIP() << "no hugetlb pool of 64 MiB here";
  Arena arena = MakeArena(kBytes);
  std::memset(arena.Allocate(kBytes), 1, kBytes);
  const PageUsage usage = arena.MeasurePages();
  EXPECT_EQ(usage.kind, PageKind::kHugetlb);
  EXPECT_EQ(usage.huge_bytes, kBytes);
  EXPECT_TRUE(usage.refusal.empty());
}

TEST(Arena, KeepsAlignmentAndOrder) {
  Arena arena = MakeArena(1 << 20);
  uint8_t* const a = arena.Allocate(3, 1);
  uint8_t* const b = arena.Allocate(5, 4096);
  uint8_t* const c = arena.Allocate(1, 64);
  EXPECT_GE(b, a + 3);
  EXPECT_GE(c, b + 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(c) % 64, 0u);
  EXPECT_EQ(arena.used(), static_cast<uint64_t>(c + 1 - arena.data()));
}

TEST(Arena, RefusesWhatItHasNot) {
  Arena arena = MakeArena(4096);
  EXPECT_EQ(arena.Allocate(arena.size() + 1), nullptr);
  EXPECT_EQ(arena.Allocate(UINT64_MAX), nullptr);
  EXPECT_NE(arena.Allocate(arena.size()), nullptr);
  EXPECT_EQ(arena.Allocate(1), nullptr);
  EXPECT_NE(arena.Allocate(0), nullptr);
}

TEST(Arena, RefusesSizesBeyondTheAddressSpaceWithTheNumber) {
  for (const uint64_t n : {UINT64_MAX, UINT64_MAX - 4096, uint64_t{1} << 62}) {
    const auto arena = Arena::Create(n);
    ASSERT_FALSE(arena.ok());
    EXPECT_EQ(arena.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(arena.status().message().find(std::to_string(n)), std::string::npos);
  }
}

TEST(Arena, MovesWithItsMemory) {
  Arena a = MakeArena(4096);
  uint8_t* const data = a.Allocate(8);
  data[0] = 42;
  Arena b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: a moved-from arena is empty by contract
  EXPECT_EQ(a.Allocate(1), nullptr);
  EXPECT_EQ(b.data()[0], 42);
  Arena c = MakeArena(8192);
  c = std::move(b);
  EXPECT_EQ(c.data()[0], 42);
  EXPECT_EQ(c.used(), 8u);
}

TEST(Arena, OfNoBytesHasNothing) {
  Arena arena = MakeArena(0);
  EXPECT_EQ(arena.size(), 0u);
  EXPECT_EQ(arena.Allocate(1), nullptr);
}

TEST(Scratch, GivesAlignedPiecesAndTakesThemBack) {
  std::vector<uint8_t> memory(4096);
  Scratch scratch(memory);
  const auto a = scratch.Take<float>(10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
  const uint64_t before = scratch.used();
  const float* first = nullptr;
  {
    const Scratch::Frame frame(scratch);
    first = scratch.Take<float>(100).data();
    EXPECT_GE(first, a.data() + 10);
  }
  EXPECT_EQ(scratch.used(), before);
  EXPECT_EQ(scratch.Take<float>(1).data(), first);
  EXPECT_GE(scratch.peak(), 400u);
}

TEST(ScratchDeathTest, TakingMoreThanThereIsIsABug) {
  std::vector<uint8_t> memory(256);
  Scratch scratch(memory);
  EXPECT_DEATH((void)scratch.Take<float>(65), "check failed");
  EXPECT_DEATH((void)scratch.Take<double>(UINT64_MAX / 4), "check failed");
}

}  // namespace
}  // namespace colibri
