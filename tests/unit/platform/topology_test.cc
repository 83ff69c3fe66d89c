#include "platform/topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "platform/thread_pool.h"

namespace colibri {
namespace {

// A made-up machine, or nothing with the test skipped.
#define MAKE_MACHINE(name, description)                                 \
  const auto name##_result = SyntheticTopology(description);            \
  if (name##_result.status().code() == StatusCode::kUnsupported)        \
    GTEST_SKIP() << name##_result.status().message();                   \
  ASSERT_TRUE(name##_result.ok()) << name##_result.status().ToString(); \
  const Topology& name = *name##_result

int32_t NodeOfCpu(const Topology& topology, int32_t cpu) {
  for (const CpuPlace& place : topology.cpus) {
    if (place.cpu == cpu) return place.node;
  }
  return -1;
}
int32_t CoreOfCpu(const Topology& topology, int32_t cpu) {
  for (const CpuPlace& place : topology.cpus) {
    if (place.cpu == cpu) return place.core;
  }
  return -1;
}

TEST(Topology, OfThisMachineHasTheCpusOfTheMask) {
  const std::vector<int32_t> cpus = AllowedCpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  const Topology topology = DetectTopology(cpus);
  std::vector<int32_t> found;
  for (const CpuPlace& place : topology.cpus) found.push_back(place.cpu);
  EXPECT_EQ(found, cpus);
  EXPECT_GE(topology.n_nodes(), 1);
}

TEST(Topology, ANarrowerMaskIsSeen) {
  const std::vector<int32_t> all = AllowedCpus();
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(all.back()), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) return;
    EXPECT_EQ(AllowedCpus(), std::vector<int32_t>{all.back()});
    EXPECT_EQ(DefaultThreadCount(), 1);
  }).join();
}

TEST(Topology, CpusThatNobodyKnowsAreCoresOfTheirOwn) {
  const std::vector<int32_t> cpus = {1000000, 1000001};
  const Topology topology = DetectTopology(cpus);
  EXPECT_EQ(topology.n_nodes(), 1);
  EXPECT_NE(topology.cpus[0].core, topology.cpus[1].core);
}

TEST(Topology, OfAMadeUpMachineHasItsNodesAndCores) {
  MAKE_MACHINE(machine, "package:2 numa:1 core:3 pu:2");
  ASSERT_EQ(machine.cpus.size(), 12u);
  EXPECT_EQ(machine.n_nodes(), 2);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(machine.cpus[i].node, static_cast<int32_t>(i / 6));
    EXPECT_EQ(machine.cpus[i].core, static_cast<int32_t>(i / 2));
  }
}

TEST(Topology, ANonsensicalMachineIsRefused) {
  const auto machine = SyntheticTopology("three sheep");
  ASSERT_FALSE(machine.ok());
}

TEST(Topology, MemoryOfANodeThatIsThereCanBePreferred) {
  const std::vector<int32_t> cpus = AllowedCpus();
  const Topology topology = DetectTopology(cpus);
  ASSERT_EQ(topology.system_node.size(), static_cast<size_t>(topology.n_nodes()));
  constexpr uint64_t kBytes = 1 << 20;
  void* const data =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  // A sandbox may forbid the call; it then says so.
  if (PreferNode(data, kBytes, topology.system_node[0])) std::memset(data, 1, kBytes);
  EXPECT_FALSE(PreferNode(data, kBytes, 1000));
  EXPECT_FALSE(PreferNode(data, kBytes, -1));
  EXPECT_FALSE(PreferNode(data, kBytes, 5000));
  munmap(data, kBytes);
}

TEST(PlaceThreads, TakesCoresBeforeTheirHyperthreads) {
  MAKE_MACHINE(machine, "numa:1 core:4 pu:2");
  for (const int n_threads : {1, 3, 4}) {
    const ThreadPlacement placement = PlaceThreads(machine, n_threads, 8, PinMode::kOn);
    std::set<int32_t> cores;
    for (const int32_t cpu : placement.cpu) cores.insert(CoreOfCpu(machine, cpu));
    EXPECT_EQ(cores.size(), static_cast<size_t>(n_threads));
  }
  const ThreadPlacement all = PlaceThreads(machine, 8, 8, PinMode::kOn);
  EXPECT_EQ(std::set<int32_t>(all.cpu.begin(), all.cpu.end()).size(), 8u);
  const ThreadPlacement six = PlaceThreads(machine, 6, 8, PinMode::kOn);
  std::set<int32_t> cores;
  for (const int32_t cpu : six.cpu) cores.insert(CoreOfCpu(machine, cpu));
  EXPECT_EQ(cores.size(), 4u);
}

TEST(PlaceThreads, SpreadsThemEvenlyOverTheNodes) {
  MAKE_MACHINE(machine, "package:4 numa:1 core:4 pu:2");
  for (const int n_threads : {1, 2, 4, 6, 16, 31, 32}) {
    const ThreadPlacement placement = PlaceThreads(machine, n_threads, 32, PinMode::kOn);
    ASSERT_EQ(placement.cpu.size(), static_cast<size_t>(n_threads));
    EXPECT_TRUE(std::is_sorted(placement.node.begin(), placement.node.end()));
    std::vector<int> count(4, 0);
    for (size_t i = 0; i < placement.cpu.size(); ++i) {
      EXPECT_EQ(NodeOfCpu(machine, placement.cpu[i]), placement.node[i]);
      ++count[static_cast<size_t>(placement.node[i])];
    }
    EXPECT_LE(*std::max_element(count.begin(), count.end()) -
                  *std::min_element(count.begin(), count.end()),
              1);
  }
}

TEST(PlaceThreads, WhatASmallNodeCannotTakeGoesToTheOthers) {
  MAKE_MACHINE(machine, "package:2 numa:1 core:4 pu:1");
  Topology part = machine;
  part.cpus.erase(part.cpus.begin(), part.cpus.begin() + 3);  // a mask with one CPU of node 0
  const ThreadPlacement placement = PlaceThreads(part, 4, 5, PinMode::kOn);
  EXPECT_EQ(placement.node, (std::vector<int32_t>{0, 1, 1, 1}));
}

TEST(PlaceThreads, OnItsOwnPinsWhereThereIsNothingToChoose) {
  const Topology machine{{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {3, 3, 0}}, {0}};
  EXPECT_TRUE(PlaceThreads(machine, 4, 4, PinMode::kAuto).pinned());
  // Another process would choose the same two.
  EXPECT_FALSE(PlaceThreads(machine, 2, 4, PinMode::kAuto).pinned());
  // A quota of two CPUs, and threads that share them.
  EXPECT_FALSE(PlaceThreads(machine, 4, 2, PinMode::kAuto).pinned());
  EXPECT_FALSE(PlaceThreads(machine, 5, 4, PinMode::kAuto).pinned());
}

TEST(PlaceThreads, DoesAsItIsTold) {
  const Topology machine{{{0, 0, 0}, {1, 1, 0}}, {0}};
  EXPECT_TRUE(PlaceThreads(machine, 1, 2, PinMode::kOn).pinned());
  EXPECT_FALSE(PlaceThreads(machine, 3, 2, PinMode::kOn).pinned());
  EXPECT_FALSE(PlaceThreads(machine, 2, 2, PinMode::kOff).pinned());
  EXPECT_EQ(PlaceThreads(machine, 3, 2, PinMode::kOn).node, std::vector<int32_t>(3, 0));
}

}  // namespace
}  // namespace colibri
