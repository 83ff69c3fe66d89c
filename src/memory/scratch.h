// memory/scratch.h - a stack of temporary buffers for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/checked.h"

namespace colibri {

// Hands out pieces of a caller's memory in order; a Frame gives back what was taken since it began.
// The sizes of a step are known before it runs, so taking more than there is is a bug: it aborts.
// Not thread-safe: one Scratch a thread.
class Scratch {
 public:
  Scratch() = default;
  // `memory` belongs to the caller and outlives the scratch.
  explicit Scratch(std::span<uint8_t> memory) : memory_(memory) {}

  // n default-aligned-to-64-bytes elements, not initialised.
  template <typename T>
  std::span<T> Take(uint64_t n) {
    const auto n_bytes = CheckedMul(n, sizeof(T));
    COLIBRI_CHECK(n_bytes.has_value());
    return {reinterpret_cast<T*>(TakeBytes(*n_bytes)), static_cast<size_t>(n)};
  }

  uint64_t used() const { return used_; }
  uint64_t size() const { return memory_.size(); }
  // The most that was in use at a time.
  uint64_t peak() const { return peak_; }

  // Everything taken while a frame lives is given back when it ends.
  class Frame {
   public:
    explicit Frame(Scratch& scratch) : scratch_(scratch), mark_(scratch.used_) {}
    ~Frame() { scratch_.used_ = mark_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    uint64_t mark_;
  };

 private:
  static constexpr uint64_t kAlignment = 64;

  uint8_t* TakeBytes(uint64_t n_bytes) {
    const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory_.data())) + used_;
    const uint64_t padding = (kAlignment - address % kAlignment) % kAlignment;
    const uint64_t left = memory_.size() - used_;
    COLIBRI_CHECK(padding <= left && n_bytes <= left - padding);
    uint8_t* const out = memory_.data() + used_ + padding;
    used_ += padding + n_bytes;
    if (used_ > peak_) peak_ = used_;
    return out;
  }

  std::span<uint8_t> memory_;
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace colibri
