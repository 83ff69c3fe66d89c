#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace colibri {
namespace {

// Texts of fewer pieces do not repay setting up the cache of pieces.
constexpr size_t kCacheFromPieces = 512;
constexpr size_t kCacheSlots = 8192;  // a power of two

// The work of one Encode call: everything it needs, owned by its thread.
class Encoder {
 public:
  Encoder(const TokenizerParts& parts, const EncodeOptions& options)
      : parts_(parts), options_(options) {}

  void Encode(std::string_view text, std::vector<int32_t>& out) {
    if (parts_.raw_tokens.empty()) {
      EncodeStretch(text, true, out);
      return;
    }
    std::vector<AddedTokenMatcher::Span> spans;
    parts_.raw_tokens.Split(text, options_.parse_special_in_text, spans);
    for (const AddedTokenMatcher::Span& span : spans) {
      if (span.id >= 0) {
        out.push_back(span.id);
      } else {
        EncodeStretch(text.substr(span.begin, span.end - span.begin), span.begin == 0, out);
      }
    }
  }

  uint64_t steps() const { return pre_.regex.steps + bpe_.steps; }

 private:
  // Text between added tokens.
  void EncodeStretch(std::string_view text, bool at_start, std::vector<int32_t>& out) {
    if (text.empty()) return;
    std::string& normalized = pieces_.text;
    normalized.assign(text);
    parts_.normalizer.Apply(normalized);
    if (parts_.normalized_tokens.empty()) {
      EncodePieces(at_start, out);
      return;
    }
    const std::string whole = std::move(normalized);
    std::vector<AddedTokenMatcher::Span> spans;
    parts_.normalized_tokens.Split(whole, options_.parse_special_in_text, spans);
    for (const AddedTokenMatcher::Span& span : spans) {
      if (span.id >= 0) {
        out.push_back(span.id);
        continue;
      }
      pieces_.text.assign(whole, span.begin, span.end - span.begin);
      EncodePieces(at_start && span.begin == 0, out);
    }
  }

  // The text in pieces_, normalized and without added tokens.
  void EncodePieces(bool at_start, std::vector<int32_t>& out) {
    pieces_.Reset(at_start);
    for (const auto& step : parts_.pre_tokenizer) step->Apply(pieces_, pre_);
    const bool cached = pieces_.ends.size() >= kCacheFromPieces;
    if (cached) cache_.assign(kCacheSlots, CachedPiece());
    size_t begin = 0;
    for (const size_t end : pieces_.ends) {
      const std::string_view piece(pieces_.text.data() + begin, end - begin);
      begin = end;
      const uint64_t hash = HashBytes(piece);
      if (cached) {
        EncodeCached(piece, hash, out);
      } else {
        parts_.model->Encode(piece, hash, bpe_, out);
      }
    }
  }

  // A piece that was met before in this text takes its ids from where they already stand in `out`.
  void EncodeCached(std::string_view piece, uint64_t hash, std::vector<int32_t>& out) {
    CachedPiece& slot = cache_[(hash >> 20) & (kCacheSlots - 1)];
    if (slot.hash == hash && slot.piece == piece) {
      const size_t from = slot.out_begin, n = slot.n_ids;
      if (n == 1) {
        out.push_back(out[from]);
        return;
      }
      out.resize(out.size() + n);
      std::copy_n(out.begin() + static_cast<ptrdiff_t>(from), n,
                  out.end() - static_cast<ptrdiff_t>(n));
      return;
    }
    const size_t out_begin = out.size();
    parts_.model->Encode(piece, hash, bpe_, out);
    slot = {.hash = hash, .piece = piece, .out_begin = out_begin, .n_ids = out.size() - out_begin};
  }

  struct CachedPiece {
    uint64_t hash = 0;
    std::string_view piece;
    size_t out_begin = 0;
    size_t n_ids = 0;
  };

  const TokenizerParts& parts_;
  const EncodeOptions& options_;
  PieceList pieces_;
  PreTokenizerScratch pre_;
  BpeScratch bpe_;
  std::vector<CachedPiece> cache_;
};

}  // namespace

void TokenizerParts::AddToken(const AddedToken& token) {
  vocab.Insert(token.content, token.id);  // a token of the model is there already
  if (special.size() < vocab.id_end()) special.resize(vocab.id_end());
  special[static_cast<size_t>(token.id)] = token.special ? 1 : 0;
  if (!token.normalized) {
    raw_tokens.Add(token);
    return;
  }
  AddedToken changed = token;
  normalizer.Apply(changed.content);
  if (changed.content != token.content) normalized_spelling[token.id] = changed.content;
  if (!changed.content.empty()) normalized_tokens.Add(std::move(changed));
}

Tokenizer::Tokenizer(std::unique_ptr<TokenizerParts> parts) : parts_(std::move(parts)) {
  parts_->special.resize(parts_->vocab.id_end());
}

Tokenizer::~Tokenizer() = default;

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                               const EncodeOptions& options) const {
  uint64_t steps = 0;
  return EncodeCountingSteps(text, options, steps);
}

Result<std::vector<int32_t>> Tokenizer::EncodeCountingSteps(std::string_view text,
                                                            const EncodeOptions& options,
                                                            uint64_t& steps) const {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument(
        StrCat("a text of ", text.size(), " bytes; at most ", kMaxTextBytes, " can be encoded"));
  }
  if (const std::optional<size_t> bad = FindInvalidUtf8(text)) {
    return InvalidArgument(StrCat("the text is not valid UTF-8 at offset ", *bad));
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  if (options.add_special_tokens) ids = parts_->prefix_ids;
  Encoder encoder(*parts_, options);
  encoder.Encode(text, ids);
  steps = encoder.steps();
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  }
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  const std::unique_ptr<DecoderStream> stream = StartDecoding();
  for (const int32_t id : ids) {
    if (const std::optional<std::string_view> token = TokenForDecoding(id, skip_special)) {
      stream->Push(*token, text);
    }
  }
  stream->Finish(text);
  return text;
}

std::optional<std::string_view> Tokenizer::TokenForDecoding(int32_t id, bool skip_special) const {
  if (!parts_->vocab.Contains(id)) return std::nullopt;
  if (!parts_->normalized_spelling.empty()) {
    const auto changed = parts_->normalized_spelling.find(id);
    if (changed != parts_->normalized_spelling.end()) return changed->second;
  }
  if (skip_special && IsSpecial(id)) return std::nullopt;
  return parts_->vocab.Text(id);
}

std::unique_ptr<DecoderStream> Tokenizer::StartDecoding() const {
  return parts_->decoder.Start();
}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(parts_->vocab.id_end());
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  const int32_t id = parts_->vocab.Find(token);
  if (id == StringTable::kNone) return std::nullopt;
  return id;
}

std::string_view Tokenizer::IdToToken(int32_t id) const {
  return parts_->vocab.Contains(id) ? parts_->vocab.Text(id) : std::string_view();
}

std::string Tokenizer::IdToBytes(int32_t id) const {
  const std::string_view token = IdToToken(id);
  if (parts_->model->options().byte_level) {
    return FromByteLevel(token).value_or(std::string(token));
  }
  if (token.size() == 6 && token.starts_with("<0x") && token[5] == '>') {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
    return std::string(1, static_cast<char>(digit(token[3]) * 16 + digit(token[4])));
  }
  std::string text(token);
  ReplaceAll(text, "\xE2\x96\x81", " ");
  return text;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return parts_->vocab.Contains(id) && parts_->special[static_cast<size_t>(id)] != 0;
}

const SpecialTokenIds& Tokenizer::special_ids() const {
  return parts_->special_ids;
}
std::optional<bool> Tokenizer::add_bos() const {
  return parts_->add_bos;
}
std::optional<bool> Tokenizer::add_eos() const {
  return parts_->add_eos;
}
const std::string& Tokenizer::chat_template() const {
  return parts_->chat_template;
}

}  // namespace colibri
