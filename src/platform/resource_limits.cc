#include "platform/resource_limits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "platform/thread_pool.h"
#include "platform/topology.h"

namespace colibri {
namespace {

// The first line of a small file of the system, or nothing.
std::optional<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> ReadBytes(const std::string& path) {
  const auto text = FirstLine(path);
  if (!text) return std::nullopt;
  const auto value = ParseInt(*text);  // "max" is no number: no limit
  if (!value || *value < 0) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

// A value of a file of "key value" lines, such as memory.stat.
std::optional<uint64_t> ReadKey(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    uint64_t value = 0;
    if (words >> word >> value && word == key) return value;
  }
  return std::nullopt;
}

// "/a/b" gives "/a/b", "/a", "": the group and its parents up to the root of the mount.
std::vector<std::string> PathAndParents(std::string path) {
  std::vector<std::string> out;
  while (!path.empty() && path.back() == '/') path.pop_back();
  while (!path.empty()) {
    out.push_back(path);
    const size_t slash = path.rfind('/');
    path.erase(slash == std::string::npos ? 0 : slash);
  }
  out.emplace_back();
  return out;
}

bool HasController(std::string_view list, std::string_view controller) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == controller) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// The folders that hold a controller's files for this process, its own group first. In a container
// the path that /proc shows may lie outside the mount; then its folders do not exist and the root
// of the mount answers.
std::vector<std::string> GroupFolders(const SystemPaths& paths, std::string_view controller) {
  std::vector<std::string> out;
  std::ifstream file(paths.proc + "/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    // "0::/path" for version 2, "4:cpu,cpuacct:/path" for version 1.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string list = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (list.empty()) {
      for (const std::string& group : PathAndParents(path)) out.push_back(paths.cgroup + group);
    } else if (HasController(list, controller)) {
      // The mount is named after the whole list or after one controller.
      for (const std::string& group : PathAndParents(path)) {
        out.push_back(StrCat(paths.cgroup, "/", list, group));
        if (list != controller) out.push_back(StrCat(paths.cgroup, "/", controller, group));
      }
    }
  }
  return out;
}

void KeepSmaller(std::optional<uint64_t>& smallest, std::optional<uint64_t> value) {
  if (value && (!smallest || *value < *smallest)) smallest = value;
}

// Version 1 says "no limit" with a number just below 2^63.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

std::optional<uint64_t> GroupLimit(const std::string& folder) {
  auto limit = ReadBytes(folder + "/memory.max");
  if (!limit) limit = ReadBytes(folder + "/memory.limit_in_bytes");
  if (limit && *limit >= kNoLimit) return std::nullopt;
  return limit;
}

}  // namespace

std::optional<double> CpuQuota(const SystemPaths& paths) {
  std::optional<double> smallest;
  const auto keep = [&](double quota, double period) {
    if (quota <= 0 || period <= 0) return;
    if (!smallest || quota / period < *smallest) smallest = quota / period;
  };
  for (const std::string& folder : GroupFolders(paths, "cpu")) {
    if (const auto line = FirstLine(folder + "/cpu.max")) {
      std::istringstream words(*line);
      double quota = 0, period = 0;
      if (words >> quota >> period) keep(quota, period);  // "max 100000" is no number: no quota
    }
    const auto quota = ReadBytes(folder + "/cpu.cfs_quota_us");  // -1: no quota
    const auto period = ReadBytes(folder + "/cpu.cfs_period_us");
    if (quota && period) keep(static_cast<double>(*quota), static_cast<double>(*period));
  }
  return smallest;
}

std::optional<uint64_t> CgroupMemoryLimit(const SystemPaths& paths) {
  std::optional<uint64_t> smallest;
  for (const std::string& folder : GroupFolders(paths, "memory")) {
    KeepSmaller(smallest, GroupLimit(folder));
  }
  return smallest;
}

std::optional<uint64_t> CgroupMemoryLeft(const SystemPaths& paths) {
  std::optional<uint64_t> smallest;
  for (const std::string& folder : GroupFolders(paths, "memory")) {
    const auto limit = GroupLimit(folder);
    if (!limit) continue;
    auto used = ReadBytes(folder + "/memory.current");
    if (!used) used = ReadBytes(folder + "/memory.usage_in_bytes");
    if (!used) {
      KeepSmaller(smallest, limit);
      continue;
    }
    auto cache = ReadKey(folder + "/memory.stat", "inactive_file");
    if (!cache) cache = ReadKey(folder + "/memory.stat", "total_inactive_file");
    const uint64_t held = *used - std::min(*used, cache.value_or(0));
    KeepSmaller(smallest, *limit - std::min(*limit, held));
  }
  return smallest;
}

std::optional<uint64_t> CgroupHugetlbLeft(const SystemPaths& paths) {
  std::optional<uint64_t> smallest;
  for (const std::string& folder : GroupFolders(paths, "hugetlb")) {
    auto limit = ReadBytes(folder + "/hugetlb.2MB.max");
    if (!limit) limit = ReadBytes(folder + "/hugetlb.2MB.limit_in_bytes");
    if (!limit || *limit >= kNoLimit) continue;
    auto used = ReadBytes(folder + "/hugetlb.2MB.current");
    if (!used) used = ReadBytes(folder + "/hugetlb.2MB.usage_in_bytes");
    KeepSmaller(smallest, *limit - std::min(*limit, used.value_or(0)));
  }
  return smallest;
}

int ThreadCountFor(int n_cpus, std::optional<double> quota) {
  int n = std::max(n_cpus, 1);
  if (quota && *quota < n) n = std::max(1, static_cast<int>(std::ceil(*quota)));
  return std::min(n, ThreadPool::kMaxThreads);
}

std::optional<uint64_t> MemInfo(const SystemPaths& paths, const std::string& key) {
  const auto kib = ReadKey(paths.proc + "/meminfo", key + ":");
  if (!kib || *kib > UINT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

int DefaultThreadCount() {
  return ThreadCountFor(static_cast<int>(AllowedCpus().size()), CpuQuota({}));
}

uint64_t MemoryLimitBytes() {
  const uint64_t physical = MemInfo({}, "MemTotal").value_or(UINT64_MAX);
  return std::min(physical, CgroupMemoryLimit({}).value_or(UINT64_MAX));
}

uint64_t AvailableMemoryBytes() {
  const uint64_t available = MemInfo({}, "MemAvailable").value_or(MemoryLimitBytes());
  return std::min(available, CgroupMemoryLeft({}).value_or(UINT64_MAX));
}

}  // namespace colibri
