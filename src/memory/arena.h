// memory/arena.h - big, page-aligned memory taken once and never freed in pieces: weights, KV
// pages, static buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "platform/resource_limits.h"

namespace colibri {

// What pages an arena was mapped to have.
enum class PageKind : uint8_t {
  kSmall,        // too small an arena for huge pages, or a system that gives none
  kTransparent,  // 2 MiB where the kernel finds them when memory is first touched
  kHugetlb,      // 2 MiB from the pool that the administrator set aside; reserved
};

// How an arena lies in memory; `huge_bytes` counts what was touched so far.
struct PageUsage {
  PageKind kind = PageKind::kSmall;
  uint64_t bytes = 0;
  uint64_t huge_bytes = 0;
  std::string refusal = {};  // why there are none where there should be some, or empty

  // "3.6 GiB of 3.7 GiB on 2 MiB pages (transparent huge pages)", with the refusal.
  std::string ToString() const;
};

// Zeroed anonymous memory. From 2 MiB on it begins on a huge page's boundary and is asked to lie on
// huge pages: of the hugetlb pool where that has enough free ones for all of it, else transparent
// ones by madvise, else 4 KiB serve. Movable, not copyable.
class Arena {
 public:
  Arena() = default;
  // Reserves `n_bytes` of address space; pages are taken when first touched. ResourceExhausted,
  // with the numbers, when the system refuses.
  static Result<Arena> Create(uint64_t n_bytes, const SystemPaths& paths = {});
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  uint64_t used() const { return used_; }
  PageKind page_kind() const { return page_kind_; }
  // Asks the system where the pages lie: to be told once, not on a hot path.
  PageUsage MeasurePages(const SystemPaths& paths = {}) const;

  // The next n_bytes at a multiple of `alignment` (a power of two); null when the arena has not
  // enough left. Not thread-safe.
  uint8_t* Allocate(uint64_t n_bytes, uint64_t alignment = 64);

 private:
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t used_ = 0;
  PageKind page_kind_ = PageKind::kSmall;
};

}  // namespace colibri
