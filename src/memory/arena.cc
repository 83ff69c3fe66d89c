#include "memory/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"

namespace colibri {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr uint64_t kSmallPageBytes = 4096;

}  // namespace

Result<Arena> Arena::Create(uint64_t n_bytes) {
  Arena arena;
  if (n_bytes == 0) return arena;
  // Whole huge pages, where the request is big enough that the rounding does not matter.
  const uint64_t page = n_bytes >= kHugePageBytes ? kHugePageBytes : kSmallPageBytes;
  const auto padded = CheckedAdd(n_bytes, page - 1);
  if (!padded || *padded > SIZE_MAX / 2) {
    return ResourceExhausted(StrCat("an arena of ", n_bytes, " bytes exceeds the address space"));
  }
  const uint64_t size = *padded / page * page;
  // One page more than needed, so that the start can lie on a huge page's boundary.
  const uint64_t mapped = size + (page == kHugePageBytes ? page : 0);
  void* const memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return ResourceExhausted(StrCat("the system refused ", FormatBytes(n_bytes), " (", n_bytes,
                                    " bytes) of memory: ", std::strerror(errno)));
  }
  auto* data = static_cast<uint8_t*>(memory);
  if (page == kHugePageBytes) {
    const uint64_t head = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
    if (head > 0) munmap(data, head);
    if (head < page) munmap(data + head + size, page - head);
    data += head;
    // A kernel without transparent huge pages refuses, and 4 KiB pages serve.
    (void)madvise(data, size, MADV_HUGEPAGE);
  }
  arena.data_ = data;
  arena.size_ = size;
  return arena;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, size_);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      used_(std::exchange(other.used_, 0)) {
}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    used_ = std::exchange(other.used_, 0);
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
