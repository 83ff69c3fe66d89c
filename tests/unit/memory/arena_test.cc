#include "memory/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/scratch.h"

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
