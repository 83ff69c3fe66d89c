// engine/kv_cache.h - the memory that sequences keep between steps: pages of keys and values, and
// slots of recurrent state, all taken once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/arena.h"
#include "model/kv_layout.h"

namespace colibri {

// Pages that n_positions need.
constexpr int32_t PagesFor(int64_t n_positions) {
  return static_cast<int32_t>((n_positions + kPageTokens - 1) / kPageTokens);
}

// What one sequence holds of the pool.
struct SequenceMemory {
  std::vector<int32_t> pages;  // in order of positions
  int32_t slot = -1;  // of recurrent state; every sequence has one, which bounds their number
};

// A pool of pages over one arena. A sequence gets all pages of its declared length at admission, so
// that no step can fail for want of memory; pages are touched (and cost memory) when first written.
// Not thread-safe.
class KvCache {
 public:
  // n_pages, n_slots >= 1. ResourceExhausted when the system refuses the memory.
  static Result<KvCache> Create(const KvLayout& layout, int32_t n_pages, int32_t n_slots);
  // Bytes that Create takes.
  static uint64_t Bytes(const KvLayout& layout, int32_t n_pages, int32_t n_slots);

  // Pages for n_positions > 0 and a slot. ResourceExhausted, with pages needed, free and in all,
  // when they do not fit; nothing is taken then.
  Result<SequenceMemory> Reserve(int64_t n_positions);
  // Gives everything back; `memory` is empty afterwards.
  void Release(SequenceMemory& memory);

  // What the forward pass works on; valid as long as this object is not moved from.
  KvStorage storage() const;

  int32_t n_pages() const { return n_pages_; }
  int32_t n_free_pages() const { return static_cast<int32_t>(free_pages_.size()); }
  int32_t n_slots() const { return n_slots_; }
  int32_t n_free_slots() const { return static_cast<int32_t>(free_slots_.size()); }
  uint64_t page_bytes() const { return layout_.page_bytes; }
  KvType type() const { return layout_.type; }

  // Puts a sequence's recurrent state to zero: where a sequence starts.
  void ClearRecurrent(const SequenceMemory& memory);
  // Recurrent state cannot be truncated: who wants to return to a position keeps a copy of it.
  uint64_t recurrent_floats() const { return layout_.recurrent_floats; }  // 0: nothing to keep
  // out, in: [recurrent_floats()].
  void SnapshotRecurrent(const SequenceMemory& memory, std::span<float> out) const;
  void RestoreRecurrent(const SequenceMemory& memory, std::span<const float> in);

 private:
  KvCache() = default;

  Arena arena_;
  KvLayout layout_;
  uint8_t* pages_ = nullptr;
  float* recurrent_ = nullptr;
  int32_t n_pages_ = 0;
  int32_t n_slots_ = 0;
  std::vector<int32_t> free_pages_;  // taken from the back
  std::vector<int32_t> free_slots_;
};

}  // namespace colibri
