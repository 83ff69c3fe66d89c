#include "text/bpe.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace colibri {
namespace {

// Up to this many symbols a scan for the best pair beats a heap.
constexpr size_t kShortPiece = 32;

std::string ByteToken(uint8_t byte) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  return std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + '>';
}

// A heap of numbers with four children a node, least on top: half as deep as a binary one.
void PushLeast(std::vector<uint64_t>& heap, uint64_t value) {
  size_t hole = heap.size();
  heap.push_back(value);
  while (hole > 0) {
    const size_t parent = (hole - 1) / 4;
    if (heap[parent] <= value) break;
    heap[hole] = heap[parent];
    hole = parent;
  }
  heap[hole] = value;
}

uint64_t PopLeast(std::vector<uint64_t>& heap) {
  const uint64_t least = heap[0];
  const uint64_t last = heap.back();
  heap.pop_back();
  const size_t n = heap.size();
  if (n == 0) return least;
  size_t hole = 0;
  while (true) {
    const size_t first = hole * 4 + 1;
    if (first >= n) break;
    size_t child = first;
    const size_t end = std::min(first + 4, n);
    for (size_t i = first + 1; i < end; ++i) {
      if (heap[i] < heap[child]) child = i;
    }
    if (heap[child] >= last) break;
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = last;
  return least;
}

}  // namespace

Result<std::unique_ptr<BpeModel>> BpeModel::Build(const StringTable& vocab, BpeOptions options,
                                                  const std::vector<Merge>& merges,
                                                  const std::vector<std::string>& pseudo_tokens) {
  std::unique_ptr<BpeModel> model(new BpeModel());
  model->options_ = std::move(options);
  model->n_vocab_ = static_cast<int32_t>(vocab.id_end());
  model->byte_ids_.assign(256, StringTable::kNone);
  model->pieces_.Reserve(vocab.id_end(), 0);
  for (int32_t id = 0; id < model->n_vocab_; ++id) {
    if (!vocab.Contains(id)) continue;
    if (!model->options_.byte_level) {
      model->pieces_.Insert(vocab.Text(id), id);
      continue;
    }
    const std::optional<std::string> bytes = FromByteLevel(vocab.Text(id));
    if (!bytes) continue;  // a special token: no piece can spell it
    if (bytes->size() == 1) model->byte_ids_[static_cast<uint8_t>((*bytes)[0])] = id;
    model->pieces_.Insert(*bytes, id);
  }
  if (model->options_.byte_fallback) {
    for (uint32_t byte = 0; byte < 256 && !model->options_.byte_level; ++byte) {
      model->byte_ids_[byte] = vocab.Find(ByteToken(static_cast<uint8_t>(byte)));
    }
  }
  for (size_t i = 0; i < pseudo_tokens.size(); ++i) {
    model->pseudo_.Insert(pseudo_tokens[i], model->n_vocab_ + static_cast<int32_t>(i));
  }
  size_t capacity = 64;
  while (capacity < merges.size() * 2) capacity *= 2;
  model->pairs_.resize(capacity);
  model->pair_mask_ = capacity - 1;
  for (const Merge& merge : merges) model->InsertPair(merge);
  model->known_ = std::make_unique<std::atomic<uint8_t>[]>(vocab.id_end());
  return model;
}

void BpeModel::InsertPair(const Merge& merge) {
  const uint64_t key =
      uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right);
  size_t slot = HashPair(key) & pair_mask_;
  while (pairs_[slot].key != kNoPair && pairs_[slot].key != key) slot = (slot + 1) & pair_mask_;
  pairs_[slot] = {.key = key, .rank = merge.rank, .merged = merge.merged};
}

bool BpeModel::SplitsBefore(std::string_view mark, const StringTable& vocab) const {
  if (!options_.continuing_prefix.empty() || !options_.word_suffix.empty()) return false;
  if (pieces_.Find(mark) == StringTable::kNone) return false;
  const auto text = [&](int32_t id) { return id < n_vocab_ ? vocab.Text(id) : pseudo_.Text(id); };
  for (const Pair& pair : pairs_) {
    if (pair.key == kNoPair) continue;
    const std::string_view left = text(static_cast<int32_t>(pair.key >> 32));
    const std::string_view right = text(static_cast<int32_t>(pair.key & UINT32_MAX));
    if (right.starts_with(mark) && !left.ends_with(mark)) return false;
  }
  return true;
}

void BpeModel::Encode(std::string_view piece, BpeScratch& scratch,
                      std::vector<int32_t>& out) const {
  Encode(piece, HashBytes(piece), scratch, out);
}

void BpeModel::Encode(std::string_view piece, uint64_t hash, BpeScratch& scratch,
                      std::vector<int32_t>& out) const {
  if (piece.empty()) return;
  const int32_t whole = pieces_.Find(piece, hash);
  Known known = kUnknown;
  if (whole != StringTable::kNone) {
    known = static_cast<Known>(known_[static_cast<size_t>(whole)].load(std::memory_order_relaxed));
    if (known == kWhole || options_.ignore_merges) {
      out.push_back(whole);
      return;
    }
  }
  scratch.ids.clear();
  if (options_.byte_level && options_.continuing_prefix.empty() && options_.word_suffix.empty()) {
    InitialSymbols(piece, scratch.ids);
  } else {
    InitialCharacters(piece, scratch.ids);
  }
  if (scratch.ids.size() > kShortPiece) {
    MergeLong(scratch);
  } else if (scratch.ids.size() > 1) {
    MergeShort(scratch);
  }
  if (whole != StringTable::kNone && known == kUnknown) {
    const bool is_whole = scratch.ids.size() == 1 && scratch.ids[0] == whole;
    known_[static_cast<size_t>(whole)].store(is_whole ? kWhole : kSplit, std::memory_order_relaxed);
  }
  AppendResult(scratch.ids, out);
}

void BpeModel::AppendResult(const std::vector<int32_t>& ids, std::vector<int32_t>& out) const {
  if (pseudo_.size() == 0) {
    out.insert(out.end(), ids.begin(), ids.end());
    return;
  }
  for (const int32_t id : ids) {
    if (id < n_vocab_) {
      out.push_back(id);
      continue;
    }
    for (const char byte : pseudo_.Text(id)) {
      const int32_t token = byte_ids_[static_cast<uint8_t>(byte)];
      if (token != StringTable::kNone) {
        out.push_back(token);
      } else if (options_.unk_id != StringTable::kNone) {
        out.push_back(options_.unk_id);
      }
    }
  }
}

// Byte-level: every byte has its own token, or becomes unknown like a character without one.
void BpeModel::InitialSymbols(std::string_view piece, std::vector<int32_t>& ids) const {
  for (const char byte : piece) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id == StringTable::kNone) {
      ids.clear();
      InitialCharacters(piece, ids);
      return;
    }
    ids.push_back(id);
  }
}

// The symbols of the general case: prefix and suffix, byte fallback, unknown tokens, in the order
// in which Hugging Face's merge_word emits them.
void BpeModel::InitialCharacters(std::string_view piece, std::vector<int32_t>& ids) const {
  bool unk_pending = false;
  std::string spelled;
  for (size_t pos = 0; pos < piece.size();) {
    const size_t length = options_.byte_level ? 1 : SequenceLength(piece[pos]);
    spelled.clear();
    if (pos > 0) spelled += options_.continuing_prefix;
    spelled.append(piece, pos, length);
    pos += length;
    if (pos == piece.size()) spelled += options_.word_suffix;
    int32_t id = pieces_.Find(spelled);
    if (id == StringTable::kNone) id = pseudo_.Find(spelled);
    if (id != StringTable::kNone) {
      if (unk_pending) ids.push_back(options_.unk_id);
      unk_pending = false;
      ids.push_back(id);
      continue;
    }
    if (options_.byte_fallback && !options_.byte_level) {
      const bool all = std::all_of(spelled.begin(), spelled.end(), [&](char byte) {
        return byte_ids_[static_cast<uint8_t>(byte)] != StringTable::kNone;
      });
      if (all) {
        for (const char byte : spelled) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
        continue;
      }
    }
    // In the alphabet of bytes a character is one byte, so unknown counts are the same.
    if (options_.unk_id == StringTable::kNone) continue;  // dropped, as Hugging Face does
    if (unk_pending && !options_.fuse_unk) ids.push_back(options_.unk_id);
    unk_pending = true;
  }
  if (unk_pending) ids.push_back(options_.unk_id);
}

void BpeModel::MergeShort(BpeScratch& scratch) const {
  constexpr uint32_t kNever = UINT32_MAX;
  std::vector<int32_t>& ids = scratch.ids;
  std::array<uint32_t, kShortPiece> ranks;
  std::array<int32_t, kShortPiece> merged;
  size_t n = ids.size();
  const auto look_up = [&](size_t i) {
    const Pair* pair = FindPair(ids[i], ids[i + 1]);
    ranks[i] = pair == nullptr ? kNever : pair->rank;
    merged[i] = pair == nullptr ? 0 : pair->merged;
  };
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  scratch.steps += n;
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNever) break;
    ids[best] = merged[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --n;
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
    scratch.steps += 2;
  }
  ids.resize(n);
}

void BpeModel::MergeLong(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& heap = scratch.heap;
  std::vector<uint64_t>& first = scratch.first;
  const auto n = static_cast<int32_t>(scratch.ids.size());
  symbols.resize(scratch.ids.size());
  const auto at = [&](int32_t i) -> BpeScratch::Symbol& { return symbols[static_cast<size_t>(i)]; };
  for (int32_t i = 0; i < n; ++i) {
    at(i) = {.id = scratch.ids[static_cast<size_t>(i)],
             .previous = i - 1,
             .next = i + 1 < n ? i + 1 : -1};
  }
  const auto key = [](const Pair& pair, int32_t pos) {
    return uint64_t{pair.rank} << 32 | static_cast<uint32_t>(pos);
  };
  // The pairs of the text itself are sorted once; only those that merging makes go through a heap.
  heap.clear();
  first.clear();
  for (int32_t i = 0; i + 1 < n; ++i) {
    if (const Pair* pair = FindPair(at(i).id, at(i + 1).id)) first.push_back(key(*pair, i));
  }
  if (!std::is_sorted(first.begin(), first.end())) std::sort(first.begin(), first.end());
  scratch.steps += static_cast<uint64_t>(n);
  constexpr int32_t kGone = -2;  // previous of a symbol that was merged into its left neighbour
  const auto consider = [&](int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    if (const Pair* pair = FindPair(at(left).id, at(at(left).next).id)) {
      PushLeast(heap, key(*pair, left));
    }
  };
  size_t next_first = 0;
  while (next_first < first.size() || !heap.empty()) {
    const bool from_first =
        next_first < first.size() && (heap.empty() || first[next_first] < heap[0]);
    const uint64_t best = from_first ? first[next_first++] : PopLeast(heap);
    const auto pos = static_cast<int32_t>(best & UINT32_MAX);
    ++scratch.steps;
    BpeScratch::Symbol& left = at(pos);
    if (left.previous == kGone || left.next < 0) continue;
    const Pair* pair = FindPair(left.id, at(left.next).id);
    if (pair == nullptr || pair->rank != best >> 32) continue;  // the pair has changed since
    BpeScratch::Symbol& right = at(left.next);
    left.id = pair->merged;
    left.next = right.next;
    right.previous = kGone;
    if (left.next >= 0) at(left.next).previous = pos;
    consider(left.previous);
    consider(pos);
  }
  scratch.ids.clear();
  for (int32_t i = 0; i >= 0; i = at(i).next) scratch.ids.push_back(at(i).id);
}

}  // namespace colibri
