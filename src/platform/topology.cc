#include "platform/topology.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"

#ifdef COLIBRI_HAVE_HWLOC
#include <hwloc.h>

#include <memory>
#endif

namespace colibri {
namespace {

#ifdef COLIBRI_HAVE_HWLOC

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

// Null where hwloc fails. An empty description is this machine.
HwlocTopology LoadHwloc(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  HwlocTopology topology(raw);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0)
    return nullptr;
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

// The node whose CPUs hold this one; of several (memory of two kinds) the first.
int32_t NodeOf(hwloc_topology_t topology, hwloc_obj_t pu) {
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (hwloc_bitmap_isset(node->cpuset, pu->os_index) != 0)
      return static_cast<int32_t>(node->os_index);
  }
  return 0;
}

std::vector<CpuPlace> PlacesIn(hwloc_topology_t topology) {
  std::vector<CpuPlace> places;
  hwloc_obj_t pu = nullptr;
  while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr) {
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    places.push_back(
        {static_cast<int32_t>(pu->os_index),
         static_cast<int32_t>(core == nullptr ? pu->logical_index : core->logical_index),
         NodeOf(topology, pu)});
  }
  return places;
}

std::vector<CpuPlace> DetectPlaces() {
  const HwlocTopology topology = LoadHwloc("");
  return topology == nullptr ? std::vector<CpuPlace>() : PlacesIn(topology.get());
}

#else

std::vector<CpuPlace> DetectPlaces() {
  return {};
}

#endif

// Numbers the nodes that are left without gaps, in the order of the system's numbers.
void RenumberNodes(Topology& topology) {
  std::vector<int32_t>& nodes = topology.system_node;
  nodes.clear();
  for (const CpuPlace& place : topology.cpus) nodes.push_back(place.node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  for (CpuPlace& place : topology.cpus) {
    const auto at = std::lower_bound(nodes.begin(), nodes.end(), place.node);
    place.node = static_cast<int32_t>(at - nodes.begin());
  }
}

// A node's CPUs in the order in which threads take them: the first of each core, then the second
// ones, and so on.
std::vector<CpuPlace> InOrderOfUse(const Topology& topology, int32_t node) {
  struct Ranked {
    int32_t rank;  // among the CPUs of its core
    CpuPlace place;
  };
  std::vector<Ranked> ranked;
  for (const CpuPlace& place : topology.cpus) {
    if (place.node != node) continue;
    int32_t rank = 0;
    for (const Ranked& other : ranked) rank += other.place.core == place.core ? 1 : 0;
    ranked.push_back({rank, place});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.rank < b.rank; });
  std::vector<CpuPlace> out;
  for (const Ranked& r : ranked) out.push_back(r.place);
  return out;
}

}  // namespace

int32_t Topology::n_nodes() const {
  int32_t n = 1;
  for (const CpuPlace& place : cpus) n = std::max(n, place.node + 1);
  return n;
}

std::vector<int32_t> AllowedCpus() {
  std::vector<int32_t> cpus;
  // The set grows until the kernel's own fits: machines with more than 1024 CPUs need it.
  for (int n_bits = CPU_SETSIZE; n_bits <= CPU_SETSIZE * 64 && cpus.empty(); n_bits *= 2) {
    cpu_set_t* const set = CPU_ALLOC(n_bits);
    if (set == nullptr) break;
    const size_t n_bytes = CPU_ALLOC_SIZE(n_bits);
    const bool ok = sched_getaffinity(0, n_bytes, set) == 0;
    for (int cpu = 0; ok && cpu < n_bits; ++cpu) {
      if (CPU_ISSET_S(cpu, n_bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

Topology DetectTopology(std::span<const int32_t> cpus) {
  COLIBRI_CHECK(!cpus.empty());
  Topology topology;
  const std::vector<CpuPlace> places = DetectPlaces();
  for (const int32_t cpu : cpus) {
    const auto found = std::find_if(places.begin(), places.end(),
                                    [cpu](const CpuPlace& place) { return place.cpu == cpu; });
    if (found != places.end()) topology.cpus.push_back(*found);
  }
  // Some are unknown: better nothing than half.
  if (topology.cpus.size() < cpus.size()) {
    topology.cpus.clear();
    for (const int32_t cpu : cpus) topology.cpus.push_back({cpu, cpu, 0});
  }
  RenumberNodes(topology);
  return topology;
}

Result<Topology> SyntheticTopology(const std::string& description) {
#ifdef COLIBRI_HAVE_HWLOC
  const HwlocTopology loaded = LoadHwloc(description);
  if (loaded == nullptr || description.empty())
    return InvalidArgument(StrCat("hwloc knows no machine \"", description, "\""));
  Topology topology;
  topology.cpus = PlacesIn(loaded.get());
  RenumberNodes(topology);
  return topology;
#else
  return Unsupported(StrCat("no machine \"", description, "\": this build is without hwloc"));
#endif
}

bool PreferNode(void* data, uint64_t n_bytes, int32_t system_node) {
  // The system call itself: libnuma's wrapper would be one more library for it.
  constexpr int kMaxNodes = 1024, kBits = 8 * sizeof(unsigned long);
  if (system_node < 0 || system_node >= kMaxNodes) return false;
  unsigned long mask[kMaxNodes / kBits] = {};
  mask[system_node / kBits] |= 1ul << (system_node % kBits);
  return syscall(SYS_mbind, data, n_bytes, MPOL_PREFERRED, mask, kMaxNodes + 1, 0) == 0;
}

ThreadPlacement PlaceThreads(const Topology& topology, int n_threads, int n_usable, PinMode mode) {
  COLIBRI_CHECK(n_threads >= 1);
  ThreadPlacement placement;
  placement.node.assign(static_cast<size_t>(n_threads), 0);
  const auto n_cpus = static_cast<int>(topology.cpus.size());
  const bool pins = mode == PinMode::kOn     ? n_threads <= n_cpus
                    : mode == PinMode::kAuto ? n_threads == n_cpus && n_threads <= n_usable
                                             : false;
  if (!pins) return placement;

  const int32_t n_nodes = topology.n_nodes();
  std::vector<std::vector<CpuPlace>> cpus;
  for (int32_t node = 0; node < n_nodes; ++node) cpus.push_back(InOrderOfUse(topology, node));
  // The nodes take turns, and those that are full no more.
  std::vector<size_t> taken(static_cast<size_t>(n_nodes), 0);
  for (int left = n_threads; left > 0;) {
    for (size_t node = 0; node < taken.size() && left > 0; ++node) {
      if (taken[node] == cpus[node].size()) continue;
      ++taken[node];
      --left;
    }
  }
  placement.node.clear();
  for (size_t node = 0; node < taken.size(); ++node) {
    for (size_t i = 0; i < taken[node]; ++i) {
      placement.cpu.push_back(cpus[node][i].cpu);
      placement.node.push_back(static_cast<int32_t>(node));
    }
  }
  return placement;
}

}  // namespace colibri
