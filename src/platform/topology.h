// platform/topology.h - which CPUs share a core and which memory is near them, and where threads
// go.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace colibri {

struct CpuPlace {
  int32_t cpu = 0;   // the system's number
  int32_t core = 0;  // the same for hyperthreads of one core
  int32_t node = 0;  // of memory, counted from 0 without gaps
};

struct Topology {
  std::vector<CpuPlace> cpus;
  std::vector<int32_t> system_node = {0};  // [n_nodes()] the system's number of each node
  int32_t n_nodes() const;
};

// CPUs in this thread's affinity mask, ascending; at least one.
std::vector<int32_t> AllowedCpus();

// The cores and nodes of these CPUs, as hwloc sees them; in a build without it, or where it can't
// tell, every CPU is a core of its own and all share one node.
Topology DetectTopology(std::span<const int32_t> cpus);

// A machine that hwloc makes up ("node:2 core:4 pu:2"), for tests. Unsupported in a build without
// hwloc, InvalidArgument for a description that it does not understand.
Result<Topology> SyntheticTopology(const std::string& description);

// Asks for [data, data + n_bytes), whole pages that were not touched yet, to be taken from a node
// (the system's number) as long as that has memory. False where the system refuses.
bool PreferNode(void* data, uint64_t n_bytes, int32_t system_node);

enum class PinMode : uint8_t {
  kAuto,  // where the threads take all CPUs of the mask: there is nothing to choose, so that two
          // processes with CPUs to choose from don't choose the same
  kOn,    // wherever there is a CPU for each
  kOff,
};

// Where each thread of a pool runs.
struct ThreadPlacement {
  std::vector<int32_t> cpu;   // [n_threads] its only CPU; empty: the system chooses
  std::vector<int32_t> node;  // [n_threads] of the memory near it, ascending
  bool pinned() const { return !cpu.empty(); }
  int32_t n_nodes() const { return node.back() + 1; }
};

// Spreads threads evenly over the nodes, within a node over its cores first and over hyperthreads
// of taken cores last. Where the system chooses, the nodes are 0.
//   n_usable  CPUs that the quota allows at one time, at least 1
ThreadPlacement PlaceThreads(const Topology& topology, int n_threads, int n_usable, PinMode mode);

}  // namespace colibri
