// text/unicode.h - UTF-8 in and out, and sets of code points by Unicode property.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

inline constexpr uint32_t kCodePoints = 0x110000;

// The code point at `pos` of valid UTF-8; `pos` moves behind it.
inline uint32_t NextCodePoint(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(pos);
  if (lead < 0x80) {
    ++pos;
    return lead;
  }
  if (lead < 0xE0) {
    const uint32_t cp = (lead & 0x1F) << 6 | (byte(pos + 1) & 0x3F);
    pos += 2;
    return cp;
  }
  if (lead < 0xF0) {
    const uint32_t cp = (lead & 0x0F) << 12 | (byte(pos + 1) & 0x3F) << 6 | (byte(pos + 2) & 0x3F);
    pos += 3;
    return cp;
  }
  const uint32_t cp = (lead & 0x07) << 18 | (byte(pos + 1) & 0x3F) << 12 |
                      (byte(pos + 2) & 0x3F) << 6 | (byte(pos + 3) & 0x3F);
  pos += 4;
  return cp;
}

// The code point that ends before `pos` (> 0) of valid UTF-8.
uint32_t PreviousCodePoint(std::string_view text, size_t pos);

// Bytes of the sequence that this lead byte of valid UTF-8 opens.
inline size_t SequenceLength(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void AppendUtf8(uint32_t cp, std::string& out);

// The offset of the first byte that does not belong to valid UTF-8, or nothing.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// The length of the next unit of a lossy decoding: a whole valid character, or the longest prefix
// of one (at least one byte), which stands for one U+FFFD (Unicode 15, section 3.9, "substitution
// of maximal subparts"). `complete` is false when more bytes could still make the unit valid.
struct Utf8Unit {
  size_t length = 0;
  bool valid = false;
  bool complete = true;
};
Utf8Unit NextUtf8Unit(std::string_view bytes);

// The general category of Unicode 16, as a utf8proc_category_t.
uint8_t UnicodeCategory(uint32_t cp);

// A set of code points as one bit each: for building and combining, not for matching.
class CodePointSet {
 public:
  CodePointSet() : words_(kCodePoints / 64) {}
  void Add(uint32_t cp) { words_[cp >> 6] |= uint64_t{1} << (cp & 63); }
  void AddRange(uint32_t first, uint32_t last);
  void AddSet(const CodePointSet& other);
  void Intersect(const CodePointSet& other);
  void Complement();
  bool Contains(uint32_t cp) const { return (words_[cp >> 6] >> (cp & 63) & 1) != 0; }
  bool Intersects(const CodePointSet& other) const;
  bool Includes(const CodePointSet& other) const;
  bool IntersectsRange(uint32_t first, uint32_t last) const;
  const std::vector<uint64_t>& words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

// The same set in two stages, a few KiB: one test is two loads.
class CodePointTable {
 public:
  explicit CodePointTable(const CodePointSet& set);
  bool Contains(uint32_t cp) const {
    return (blocks_[size_t{stage_[cp >> 8]} * 4 + (cp >> 6 & 3)] >> (cp & 63) & 1) != 0;
  }

 private:
  std::vector<uint16_t> stage_;
  std::vector<uint64_t> blocks_;
};

// Builds sets by property. Looks every code point up once, when the first set needs it, so one
// object serves one thread.
class UnicodeProperties {
 public:
  // A general category ("L", "Lu", "Letter"), a property ("White_Space", "Alphabetic") or one of
  // the scripts that pre-tokenizers name ("Han"). Nothing when the name is not known.
  std::optional<CodePointSet> ByName(std::string_view name) const;
  CodePointSet Space() const;  // \s
  CodePointSet Word() const;   // \w
  CodePointSet Digit() const;  // \d

 private:
  CodePointSet ByCategories(uint32_t mask) const;
  mutable std::vector<uint8_t> category_;  // by code point, once needed
};

}  // namespace colibri
