// platform/huge_pages.h - what the system has to give of 2 MiB pages, and what memory lies on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "platform/resource_limits.h"

namespace colibri {

inline constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// 2 MiB pages of the hugetlb pool that this process could map now, in bytes: free, reserved by
// nobody, and within what its cgroup leaves. 0 where there is no pool.
uint64_t FreeHugetlbBytes(const SystemPaths& paths);

// When memory gets transparent huge pages: "always", "madvise" or "never"; nothing where the kernel
// has none.
std::optional<std::string> TransparentHugePageMode(const SystemPaths& paths);

// Bytes of this process's mappings within [begin, end) that lie on huge pages now, of either kind;
// nothing where the system does not tell. Walks the page tables: milliseconds for gigabytes.
std::optional<uint64_t> HugePageBytesWithin(const SystemPaths& paths, uintptr_t begin,
                                            uintptr_t end);

}  // namespace colibri
