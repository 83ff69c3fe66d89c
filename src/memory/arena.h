// memory/arena.h - big, page-aligned memory taken once and never freed in pieces: weights, KV
// pages, static buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace colibri {

// Zeroed anonymous memory, 2 MiB pages where the system gives them (transparent huge pages by
// madvise, else 4 KiB). Movable, not copyable.
class Arena {
 public:
  Arena() = default;
  // Reserves `n_bytes` of address space; pages are taken when first touched. ResourceExhausted,
  // with the numbers, when the system refuses.
  static Result<Arena> Create(uint64_t n_bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  uint64_t used() const { return used_; }

  // The next n_bytes at a multiple of `alignment` (a power of two); null when the arena has not
  // enough left. Not thread-safe.
  uint8_t* Allocate(uint64_t n_bytes, uint64_t alignment = 64);

 private:
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t used_ = 0;
};

}  // namespace colibri
