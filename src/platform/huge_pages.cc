#include "platform/huge_pages.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace colibri {
namespace {

uint64_t ReadCount(const std::string& path) {
  std::ifstream file(path);
  uint64_t n = 0;
  return file >> n ? n : 0;
}

// "7f0000000000-7f0000200000 rw-p ...", the first line of a mapping in smaps.
struct AddressRange {
  uint64_t begin = 0, end = 0;
};
std::optional<AddressRange> ParseRange(std::string_view line) {
  constexpr int kHex = 16;
  AddressRange range;
  const char* const end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, range.begin, kHex);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, range.end, kHex);
  if (second.ec != std::errc() || second.ptr == end || *second.ptr != ' ') return std::nullopt;
  return range;
}

}  // namespace

uint64_t FreeHugetlbBytes(const SystemPaths& paths) {
  const std::string pool = paths.sys + "/kernel/mm/hugepages/hugepages-2048kB/";
  const uint64_t free = ReadCount(pool + "free_hugepages"),
                 reserved = ReadCount(pool + "resv_hugepages");
  if (free <= reserved || free - reserved > UINT64_MAX / kHugePageBytes) return 0;
  return std::min((free - reserved) * kHugePageBytes,
                  CgroupHugetlbLeft(paths).value_or(UINT64_MAX));
}

std::optional<std::string> TransparentHugePageMode(const SystemPaths& paths) {
  // "always [madvise] never": the one in brackets holds.
  std::ifstream file(paths.sys + "/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  const size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  return line.substr(open + 1, close - open - 1);
}

std::optional<uint64_t> HugePageBytesWithin(const SystemPaths& paths, uintptr_t begin,
                                            uintptr_t end) {
  constexpr uint64_t kKiB = 1024;
  std::ifstream file(paths.proc + "/self/smaps");
  if (!file) return std::nullopt;
  uint64_t total = 0;
  bool within = false;
  for (std::string line; std::getline(file, line);) {
    if (const auto range = ParseRange(line)) {
      within = range->begin < end && range->end > begin;
      continue;
    }
    if (!within) continue;
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (words >> key >> kib && (key == "AnonHugePages:" || key == "Private_Hugetlb:"))
      total += kib * kKiB;
  }
  return std::min<uint64_t>(total, end - begin);
}

}  // namespace colibri
