// text/string_table.h - strings with ids: one block of memory and one hash table.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// A fast hash of a short string; not for keys that an attacker may choose to collide, except that
// here a collision costs one comparison in a table that is loaded once.
inline uint64_t HashBytes(std::string_view text) {
  constexpr uint64_t kMul = 0x9E3779B97F4A7C15;
  uint64_t hash = text.size() * kMul;
  const char* data = text.data();
  size_t left = text.size();
  while (left >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * kMul;
    hash ^= hash >> 29;
    data += 8;
    left -= 8;
  }
  if (left > 0) {
    uint64_t word = 0;
    if (left >= 4) {
      uint32_t low, high;
      std::memcpy(&low, data, 4);
      std::memcpy(&high, data + left - 4, 4);
      word = uint64_t{high} << 32 | low;
    } else {
      word = static_cast<uint64_t>(static_cast<uint8_t>(data[0])) |
             static_cast<uint64_t>(static_cast<uint8_t>(data[left / 2])) << 8 |
             static_cast<uint64_t>(static_cast<uint8_t>(data[left - 1])) << 16;
    }
    hash = (hash ^ word) * kMul;
    hash ^= hash >> 29;
  }
  hash *= 0xBF58476D1CE4E5B9;
  return hash ^ hash >> 32;
}

// Maps strings to ids and ids to strings. Filled once, then read from many threads.
class StringTable {
 public:
  static constexpr int32_t kNone = -1;

  // Makes room for ids below n_ids and the given bytes in all.
  void Reserve(size_t n_ids, size_t n_bytes) {
    blob_.reserve(n_bytes);
    spans_.reserve(n_ids);
    Rehash(n_ids);
  }

  // False when the string or the id is already there. Ids are >= 0; gaps stay empty.
  bool Insert(std::string_view text, int32_t id) {
    if ((n_entries_ + 1) * 2 > slots_.size()) Rehash(n_entries_ + 1);
    const uint64_t hash = HashBytes(text);
    size_t slot = hash & mask_;
    for (; slots_[slot].id != kNone; slot = (slot + 1) & mask_) {
      if (slots_[slot].tag == Tag(hash) && Text(slots_[slot].id) == text) return false;
    }
    const auto index = static_cast<size_t>(id);
    if (index >= spans_.size()) spans_.resize(index + 1);
    if (spans_[index].used) return false;
    spans_[index] = {
        .begin = blob_.size(), .size = static_cast<uint32_t>(text.size()), .used = true};
    blob_.append(text);
    slots_[slot] = {.tag = Tag(hash), .id = id};
    ++n_entries_;
    return true;
  }

  int32_t Find(std::string_view text) const { return Find(text, HashBytes(text)); }
  // With the string's HashBytes already at hand.
  int32_t Find(std::string_view text, uint64_t hash) const {
    if (slots_.empty()) return kNone;
    for (size_t slot = hash & mask_; slots_[slot].id != kNone; slot = (slot + 1) & mask_) {
      if (slots_[slot].tag == Tag(hash) && Text(slots_[slot].id) == text) return slots_[slot].id;
    }
    return kNone;
  }

  bool Contains(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < spans_.size() &&
           spans_[static_cast<size_t>(id)].used;
  }
  // The string of an id that is contained.
  std::string_view Text(int32_t id) const {
    const Span& span = spans_[static_cast<size_t>(id)];
    return {blob_.data() + span.begin, span.size};
  }
  size_t size() const { return n_entries_; }
  // One above the highest id.
  size_t id_end() const { return spans_.size(); }

 private:
  struct Span {
    uint64_t begin = 0;
    uint32_t size = 0;
    bool used = false;
  };
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNone;
  };
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  void Rehash(size_t n_entries) {
    size_t capacity = 64;
    while (capacity < n_entries * 3) capacity *= 2;
    if (capacity <= slots_.size()) return;
    slots_.assign(capacity, Slot());
    mask_ = capacity - 1;
    for (size_t id = 0; id < spans_.size(); ++id) {
      if (!spans_[id].used) continue;
      const uint64_t hash = HashBytes(Text(static_cast<int32_t>(id)));
      size_t slot = hash & mask_;
      while (slots_[slot].id != kNone) slot = (slot + 1) & mask_;
      slots_[slot] = {.tag = Tag(hash), .id = static_cast<int32_t>(id)};
    }
  }

  std::string blob_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t n_entries_ = 0;
};

}  // namespace colibri
