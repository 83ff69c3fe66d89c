#include "memory/arena.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"
#include "platform/huge_pages.h"

namespace colibri {
namespace {

constexpr uint64_t kSmallPageBytes = 4096;

void* Map(uint64_t n_bytes, int flags) {
  return mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

// Pages of the pool for all of it, or null. They are reserved here, so that no later touch fails.
uint8_t* MapHugetlb(uint64_t n_bytes, const SystemPaths& paths) {
  constexpr int k2MiB = 21 << MAP_HUGE_SHIFT;
  if (FreeHugetlbBytes(paths) < n_bytes) return nullptr;
  void* const memory = Map(n_bytes, MAP_HUGETLB | k2MiB);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
}

std::string TransparentRefusal(const SystemPaths& paths) {
  const auto mode = TransparentHugePageMode(paths);
  if (!mode) return "this kernel has no transparent huge pages";
  if (*mode != "never") return {};
  return "/sys/kernel/mm/transparent_hugepage/enabled says never";
}

}  // namespace

std::string PageUsage::ToString() const {
  std::string text = StrCat(FormatBytes(huge_bytes), " of ", FormatBytes(bytes), " on 2 MiB pages");
  if (kind == PageKind::kTransparent) text += " (transparent huge pages)";
  if (kind == PageKind::kHugetlb) text += " (hugetlb)";
  return refusal.empty() ? text : StrCat(text, ": ", refusal);
}

Result<Arena> Arena::Create(uint64_t n_bytes, const SystemPaths& paths) {
  Arena arena;
  if (n_bytes == 0) return arena;
  // Whole huge pages, where the request is big enough that the rounding does not matter.
  const uint64_t page = n_bytes >= kHugePageBytes ? kHugePageBytes : kSmallPageBytes;
  const auto padded = CheckedAdd(n_bytes, page - 1);
  if (!padded || *padded > SIZE_MAX / 2) {
    return ResourceExhausted(StrCat("an arena of ", n_bytes, " bytes exceeds the address space"));
  }
  arena.size_ = *padded / page * page;
  if (page == kHugePageBytes) arena.data_ = MapHugetlb(arena.size_, paths);
  if (arena.data_ != nullptr) {
    arena.page_kind_ = PageKind::kHugetlb;
    return arena;
  }
  // One page more than needed, so that the start can lie on a huge page's boundary.
  const uint64_t mapped = arena.size_ + (page == kHugePageBytes ? page : 0);
  void* const memory = Map(mapped, 0);
  if (memory == MAP_FAILED) {
    arena.size_ = 0;
    return ResourceExhausted(StrCat("the system refused ", FormatBytes(n_bytes), " (", n_bytes,
                                    " bytes) of memory: ", std::strerror(errno)));
  }
  arena.data_ = static_cast<uint8_t*>(memory);
  if (page == kHugePageBytes) {
    const uint64_t head = (page - reinterpret_cast<uintptr_t>(arena.data_) % page) % page;
    if (head > 0) munmap(arena.data_, head);
    if (head < page) munmap(arena.data_ + head + arena.size_, page - head);
    arena.data_ += head;
    if (madvise(arena.data_, arena.size_, MADV_HUGEPAGE) == 0 &&
        TransparentRefusal(paths).empty()) {
      arena.page_kind_ = PageKind::kTransparent;
    }
  }
  return arena;
}

PageUsage Arena::MeasurePages(const SystemPaths& paths) const {
  PageUsage usage;
  usage.kind = page_kind_;
  usage.bytes = used_;
  if (data_ == nullptr) return usage;
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  const auto huge = HugePageBytesWithin(paths, begin, begin + size_);
  usage.huge_bytes = std::min(huge.value_or(0), used_);
  if (size_ < kHugePageBytes || page_kind_ == PageKind::kHugetlb) return usage;
  usage.refusal = TransparentRefusal(paths);
  if (!huge) {
    usage.refusal = "/proc/self/smaps does not tell";
  } else if (usage.refusal.empty() && usage.huge_bytes < used_ / 2) {
    usage.refusal = "the kernel gave no more of them";
  }
  return usage;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, size_);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      used_(std::exchange(other.used_, 0)),
      page_kind_(std::exchange(other.page_kind_, PageKind::kSmall)) {
}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    used_ = std::exchange(other.used_, 0);
    page_kind_ = std::exchange(other.page_kind_, PageKind::kSmall);
  }
  return *this;
}

uint8_t* Arena::Allocate(uint64_t n_bytes, uint64_t alignment) {
  COLIBRI_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
  if (data_ == nullptr) return nullptr;
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data_)) + used_;
  const uint64_t padding = (alignment - address % alignment) % alignment;
  const auto end = CheckedAdd(used_ + padding, n_bytes);
  if (padding > size_ - used_ || !end || *end > size_) return nullptr;
  uint8_t* const out = data_ + used_ + padding;
  used_ = *end;
  return out;
}

}  // namespace colibri
