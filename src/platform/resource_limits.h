// platform/resource_limits.h - how much of the machine this process may use, with the files that
// say so as arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace colibri {

// Where the system tells about itself; a test points these at files of its own.
struct SystemPaths {
  std::string proc = "/proc";             // for self/cgroup and meminfo
  std::string cgroup = "/sys/fs/cgroup";  // version 2, or the folder of version 1's controllers
  std::string sys = "/sys";               // for the pools of huge pages
};

// The tightest CPU quota along the process's control group and its parents, in CPUs (1.5 for
// 150000 of 100000); nothing where there is none. Both cgroup versions.
std::optional<double> CpuQuota(const SystemPaths& paths);

// The tightest memory limit along the same path, in bytes; nothing where there is none.
std::optional<uint64_t> CgroupMemoryLimit(const SystemPaths& paths);

// What the tightest of these groups leaves: the smallest of limit - use along the path, where the
// page cache that can be dropped does not count as used.
std::optional<uint64_t> CgroupMemoryLeft(const SystemPaths& paths);

// The same of the 2 MiB pages of the hugetlb pool, which are limited apart.
std::optional<uint64_t> CgroupHugetlbLeft(const SystemPaths& paths);

// min(n_cpus, quota rounded up), at least 1.
int ThreadCountFor(int n_cpus, std::optional<double> quota);

// A line of /proc/meminfo ("MemTotal", "MemAvailable") in bytes, or nothing.
std::optional<uint64_t> MemInfo(const SystemPaths& paths, const std::string& key);

}  // namespace colibri
