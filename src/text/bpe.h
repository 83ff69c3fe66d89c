// text/bpe.h - byte-pair encoding of one piece of text: the model behind every tokenizer here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/string_table.h"

namespace colibri {

// What a caller keeps between pieces, one for each thread.
struct BpeScratch {
  struct Symbol {
    int32_t id;
    int32_t previous;  // -1 at the start
    int32_t next;      // -1 at the end
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;   // rank << 32 | index of the left symbol, least on top
  std::vector<uint64_t> first;  // the same for the pairs of the text as it comes
  std::vector<int32_t> ids;
  uint64_t steps = 0;  // merges looked up or done since the caller last set it to zero
};

struct BpeOptions {
  bool byte_level = false;        // pieces are bytes; tokens are written in the alphabet of bytes
  bool byte_fallback = false;     // a character without a token becomes its bytes' "<0xNN>"
  bool ignore_merges = false;     // a piece that is a token is that token
  bool fuse_unk = false;          // neighbouring unknown characters become one unknown token
  std::string continuing_prefix;  // before every character but a piece's first
  std::string word_suffix;        // behind a piece's last character
  int32_t unk_id = StringTable::kNone;
};

// Merges are applied in order of rank, and from left to right within a rank. Immutable after Build;
// safe to use from many threads with a scratch for each. Time is O(n log n) in the piece.
class BpeModel {
 public:
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t merged;
    uint32_t rank;
  };
  // `vocab` holds every token as the file writes it. A later merge of the same pair replaces the
  // earlier one. Ids at or above `vocab`'s are pseudo tokens: characters which have no token but
  // which merges name; what is left of them falls back to bytes.
  static Result<std::unique_ptr<BpeModel>> Build(
      const StringTable& vocab, BpeOptions options, const std::vector<Merge>& merges,
      const std::vector<std::string>& pseudo_tokens = {});

  // Appends the ids of one piece. `piece` is bytes in byte-level mode, otherwise valid UTF-8.
  void Encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& out) const;
  // The same for a piece whose HashBytes is at hand.
  void Encode(std::string_view piece, uint64_t hash, BpeScratch& scratch,
              std::vector<int32_t>& out) const;

  const BpeOptions& options() const { return options_; }

  // True when no merge joins another character to a following `mark`, so that text may be cut
  // before a `mark` that follows something else without changing its ids.
  bool SplitsBefore(std::string_view mark, const StringTable& vocab) const;

 private:
  struct Pair {
    uint64_t key = UINT64_MAX;  // left << 32 | right
    uint32_t rank = 0;
    int32_t merged = 0;
  };
  static constexpr uint64_t kNoPair = UINT64_MAX;
  // What is known of a token's own text as a piece; filled as pieces come by. Whoever computes it
  // gets the same value, so a relaxed store is enough.
  enum Known : uint8_t { kUnknown, kWhole, kSplit };

  BpeModel() = default;
  const Pair* FindPair(int32_t left, int32_t right) const {
    const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    for (size_t slot = HashPair(key) & pair_mask_;; slot = (slot + 1) & pair_mask_) {
      if (pairs_[slot].key == key) return &pairs_[slot];
      if (pairs_[slot].key == kNoPair) return nullptr;
    }
  }
  static uint64_t HashPair(uint64_t key) {
    key *= 0x9E3779B97F4A7C15;
    return key ^ key >> 32;
  }
  void InsertPair(const Merge& merge);
  void InitialSymbols(std::string_view piece, std::vector<int32_t>& ids) const;
  void InitialCharacters(std::string_view piece, std::vector<int32_t>& ids) const;
  void MergeShort(BpeScratch& scratch) const;
  void MergeLong(BpeScratch& scratch) const;
  void AppendResult(const std::vector<int32_t>& ids, std::vector<int32_t>& out) const;

  BpeOptions options_;
  StringTable pieces_;             // tokens by what a piece holds: bytes in byte-level mode
  std::vector<int32_t> byte_ids_;  // byte-level: the byte's own token; fallback: "<0xNN>"; or kNone
  std::vector<Pair> pairs_;
  size_t pair_mask_ = 0;
  size_t n_pairs_ = 0;
  int32_t n_vocab_ = 0;
  StringTable pseudo_;
  std::unique_ptr<std::atomic<uint8_t>[]> known_;  // [n_vocab]
};

}  // namespace colibri
