#include "engine/kv_cache.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"

namespace colibri {
namespace {

// A descending list, so that the lowest index is taken first.
std::vector<int32_t> AllFree(int32_t n) {
  std::vector<int32_t> free(n);
  for (int32_t i = 0; i < n; ++i) free[i] = n - 1 - i;
  return free;
}

}  // namespace

uint64_t KvCache::Bytes(const KvLayout& layout, int32_t n_pages, int32_t n_slots) {
  constexpr uint64_t kTooMuch = std::numeric_limits<uint64_t>::max();
  const auto pages = CheckedMul(layout.page_bytes, static_cast<uint64_t>(n_pages));
  const auto slots =
      CheckedMul(layout.recurrent_floats * sizeof(float), static_cast<uint64_t>(n_slots));
  if (!pages || !slots) return kTooMuch;
  return CheckedAdd(*pages, *slots).value_or(kTooMuch);
}

Result<KvCache> KvCache::Create(const KvLayout& layout, int32_t n_pages, int32_t n_slots) {
  COLIBRI_CHECK(n_pages >= 1 && n_slots >= 1);
  constexpr uint64_t kAlignment = 64;
  const uint64_t bytes = Bytes(layout, n_pages, n_slots);
  KvCache cache;
  const auto with_padding = CheckedAdd(bytes, 2 * kAlignment);
  if (!with_padding) {
    return ResourceExhausted(StrCat("a cache of ", n_pages, " pages exceeds 64-bit sizes"));
  }
  COLIBRI_ASSIGN_OR_RETURN(cache.arena_, Arena::Create(*with_padding));
  cache.layout_ = layout;
  cache.n_pages_ = n_pages;
  cache.n_slots_ = n_slots;
  cache.pages_ =
      cache.arena_.Allocate(layout.page_bytes * static_cast<uint64_t>(n_pages), kAlignment);
  if (layout.recurrent_floats > 0) {
    cache.recurrent_ = reinterpret_cast<float*>(cache.arena_.Allocate(
        layout.recurrent_floats * sizeof(float) * static_cast<uint64_t>(n_slots), kAlignment));
    COLIBRI_CHECK(cache.recurrent_ != nullptr);
  }
  COLIBRI_CHECK(cache.pages_ != nullptr);
  cache.free_pages_ = AllFree(n_pages);
  cache.free_slots_ = AllFree(n_slots);
  return cache;
}

Result<SequenceMemory> KvCache::Reserve(int64_t n_positions) {
  COLIBRI_CHECK(n_positions > 0);
  const int64_t n = (n_positions + kPageTokens - 1) / kPageTokens;
  if (n > n_free_pages()) {
    return ResourceExhausted(
        StrCat(n_positions, " positions need ", n, " pages (",
               FormatBytes(static_cast<uint64_t>(n) * page_bytes()), "), ", n_free_pages(), " of ",
               n_pages_, " are free (",
               FormatBytes(static_cast<uint64_t>(n_free_pages()) * page_bytes()), ")"));
  }
  if (free_slots_.empty()) {
    return ResourceExhausted(
        StrCat("all ", n_slots_, " sequences are taken; release one, or raise max_sequences"));
  }
  SequenceMemory memory;
  memory.pages.assign(free_pages_.rbegin(), free_pages_.rbegin() + n);
  free_pages_.resize(free_pages_.size() - static_cast<size_t>(n));
  memory.slot = free_slots_.back();
  free_slots_.pop_back();
  return memory;
}

void KvCache::Release(SequenceMemory& memory) {
  free_pages_.insert(free_pages_.end(), memory.pages.rbegin(), memory.pages.rend());
  if (memory.slot >= 0) free_slots_.push_back(memory.slot);
  COLIBRI_CHECK(n_free_pages() <= n_pages_ && n_free_slots() <= n_slots_);
  memory.pages.clear();
  memory.slot = -1;
}

KvStorage KvCache::storage() const {
  return {.layout = &layout_,
          .pages = pages_,
          .n_pages = n_pages_,
          .recurrent = recurrent_,
          .n_slots = recurrent_ == nullptr ? 0 : n_slots_};
}

void KvCache::ClearRecurrent(const SequenceMemory& memory) {
  if (recurrent_floats() == 0) return;
  std::fill_n(recurrent_ + static_cast<uint64_t>(memory.slot) * recurrent_floats(),
              recurrent_floats(), 0.0f);
}

void KvCache::SnapshotRecurrent(const SequenceMemory& memory, std::span<float> out) const {
  COLIBRI_CHECK(out.size() == recurrent_floats() && memory.slot >= 0);
  if (recurrent_floats() == 0) return;
  std::copy_n(recurrent_ + static_cast<uint64_t>(memory.slot) * recurrent_floats(),
              recurrent_floats(), out.begin());
}

void KvCache::RestoreRecurrent(const SequenceMemory& memory, std::span<const float> in) {
  COLIBRI_CHECK(in.size() == recurrent_floats() && memory.slot >= 0);
  if (recurrent_floats() == 0) return;
  std::copy(in.begin(), in.end(),
            recurrent_ + static_cast<uint64_t>(memory.slot) * recurrent_floats());
}

}  // namespace colibri
