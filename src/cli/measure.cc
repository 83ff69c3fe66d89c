#include "cli/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/strings.h"

namespace colibri::cli {
namespace {

constexpr uint64_t kKiB = 1024;

// "VmHWM:     12345 kB" of /proc/self/status.
std::optional<uint64_t> HighWaterMark() {
  constexpr std::string_view kKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kKey)) continue;
    const size_t begin = line.find_first_of("0123456789");
    if (begin == std::string::npos) return std::nullopt;
    const size_t end = std::min(line.find_first_not_of("0123456789", begin), line.size());
    const std::optional<int64_t> kib = ParseInt(std::string_view(line).substr(begin, end - begin));
    if (!kib) return std::nullopt;
    return static_cast<uint64_t>(*kib) * kKiB;
  }
  return std::nullopt;
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  COLIBRI_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

uint64_t PeakResidentBytes() {
  if (const std::optional<uint64_t> bytes = HighWaterMark()) return *bytes;
  struct rusage usage = {};
  COLIBRI_CHECK(::getrusage(RUSAGE_SELF, &usage) == 0);
  return static_cast<uint64_t>(usage.ru_maxrss) * kKiB;
}

void ResetPeakMemory() {
  // 5 resets the mark alone (proc(5), clear_refs). A system that refuses keeps the older mark.
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace colibri::cli
