#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "text/gguf_pre.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace colibri {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // what SentencePiece writes for a space
// Merges of a "llama" vocabulary are found by cutting each token everywhere; no real one is longer.
constexpr size_t kMaxCutToken = 2048;

GgufTokenType TypeOf(const GgufVocab& gguf, size_t id) {
  return gguf.token_types.empty() ? GgufTokenType::kNormal
                                  : static_cast<GgufTokenType>(gguf.token_types[id]);
}

Status CheckShape(const GgufVocab& gguf) {
  const size_t n = gguf.tokens.size();
  if (n == 0) return CorruptData("tokenizer.ggml.tokens: missing or empty");
  if (n > static_cast<size_t>(kMaxTokenIds)) {
    return CorruptData(
        StrCat("tokenizer.ggml.tokens: ", n, " tokens; at most ", kMaxTokenIds, " are possible"));
  }
  if (!gguf.token_types.empty() && gguf.token_types.size() != n) {
    return CorruptData(StrCat("tokenizer.ggml.token_type: ", gguf.token_types.size(),
                              " entries for ", n, " tokens"));
  }
  for (size_t i = 0; i < gguf.token_types.size(); ++i) {
    if (gguf.token_types[i] < 0 || gguf.token_types[i] > 6) {
      return CorruptData(StrCat("tokenizer.ggml.token_type[", i, "]: ", gguf.token_types[i],
                                " is not a type (0..6)"));
    }
  }
  return Status();
}

Status ReadTokens(const GgufVocab& gguf, StringTable& vocab) {
  vocab.Reserve(gguf.tokens.size(), gguf.tokens.size() * 8);
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    const std::string& token = gguf.tokens[i];
    if (token.empty()) continue;  // a row of the model that no text leads to
    if (FindInvalidUtf8(token)) {
      return CorruptData(
          StrCat("tokenizer.ggml.tokens[", i, "]: '", Printable(token), "' is not valid UTF-8"));
    }
    if (!vocab.Insert(token, static_cast<int32_t>(i))) {
      return CorruptData(
          StrCat("tokenizer.ggml.tokens[", i, "]: '", Printable(token), "' occurs twice"));
    }
  }
  if (vocab.size() == 0) return CorruptData("tokenizer.ggml.tokens: every token is empty");
  return Status();
}

Status ReadSpecialId(const std::optional<uint64_t>& id, std::string_view key, const GgufVocab& gguf,
                     std::optional<int32_t>& out) {
  if (!id) return Status();
  if (*id >= gguf.tokens.size()) {
    return CorruptData(StrCat("tokenizer.ggml.", key, ": ", *id, " is not below the ",
                              gguf.tokens.size(), " tokens"));
  }
  out = static_cast<int32_t>(*id);
  return Status();
}

Status ReadSpecialIds(const GgufVocab& gguf, TokenizerParts& parts) {
  SpecialTokenIds& ids = parts.special_ids;
  COLIBRI_RETURN_IF_ERROR(ReadSpecialId(gguf.bos_id, "bos_token_id", gguf, ids.bos));
  COLIBRI_RETURN_IF_ERROR(ReadSpecialId(gguf.eos_id, "eos_token_id", gguf, ids.eos));
  COLIBRI_RETURN_IF_ERROR(ReadSpecialId(gguf.eot_id, "eot_token_id", gguf, ids.eot));
  COLIBRI_RETURN_IF_ERROR(ReadSpecialId(gguf.unk_id, "unknown_token_id", gguf, ids.unk));
  return ReadSpecialId(gguf.pad_id, "padding_token_id", gguf, ids.pad);
}

// Control, unknown and user-defined tokens are looked for in the text; the first two are special.
void AddTokensOfText(const GgufVocab& gguf, TokenizerParts& parts) {
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    const GgufTokenType type = TypeOf(gguf, i);
    const bool special = type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
    if (!special && type != GgufTokenType::kUserDefined) continue;
    if (gguf.tokens[i].empty()) continue;
    AddedToken token;
    token.id = static_cast<int32_t>(i);
    token.content = gguf.tokens[i];
    token.special = special;
    parts.AddToken(token);
  }
}

Status AddBosAndEos(bool add_bos, bool add_eos, TokenizerParts& parts) {
  parts.add_bos = add_bos;
  parts.add_eos = add_eos;
  if (add_bos) {
    if (!parts.special_ids.bos) {
      return CorruptData("tokenizer.ggml.add_bos_token: set, but there is no bos_token_id");
    }
    parts.prefix_ids.push_back(*parts.special_ids.bos);
  }
  if (add_eos) {
    if (!parts.special_ids.eos) {
      return CorruptData("tokenizer.ggml.add_eos_token: set, but there is no eos_token_id");
    }
    parts.suffix_ids.push_back(*parts.special_ids.eos);
  }
  return Status();
}

Status ReadMerges(const GgufVocab& gguf, const StringTable& vocab,
                  std::vector<BpeModel::Merge>& merges) {
  if (gguf.merges.empty()) return CorruptData("tokenizer.ggml.merges: missing or empty");
  for (size_t i = 0; i < gguf.merges.size(); ++i) {
    const std::string_view text = gguf.merges[i];
    // In the alphabet of bytes no token holds a space, except that a lone one may start.
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos) {
      return CorruptData(StrCat("tokenizer.ggml.merges[", i, "]: '", Printable(text),
                                "' is not two tokens and a space"));
    }
    const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
    BpeModel::Merge merge{.left = vocab.Find(left),
                          .right = vocab.Find(right),
                          .merged = vocab.Find(StrCat(left, right)),
                          .rank = static_cast<uint32_t>(i)};
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0) {
      return CorruptData(StrCat("tokenizer.ggml.merges[", i, "]: '", Printable(text),
                                "' names a token that is not in the vocabulary"));
    }
    merges.push_back(merge);
  }
  return Status();
}

Status MakeByteLevel(const GgufVocab& gguf, TokenizerParts& parts) {
  const GgufPreTokenizer* pre = FindGgufPreTokenizer(gguf.pre);
  if (pre == nullptr) {
    return Unsupported(StrCat("tokenizer.ggml.pre: '", Printable(gguf.pre),
                              "' is not known; known are ",
                              StrJoin(GgufPreTokenizerNames(), ", ")));
  }
  const UnicodeProperties properties;
  for (const std::string_view pattern : pre->patterns) {
    COLIBRI_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern, properties));
    parts.pre_tokenizer.push_back(MakeSplitStep(std::move(regex), SplitBehavior::kIsolated, false));
  }
  if (pre->nfc) parts.normalizer.Add(MakeUnicodeStep(UnicodeForm::kNfc));
  if (gguf.add_space_prefix.value_or(false)) {
    return Unsupported("tokenizer.ggml.add_space_prefix: with byte-level BPE");
  }
  std::vector<BpeModel::Merge> merges;
  COLIBRI_RETURN_IF_ERROR(ReadMerges(gguf, parts.vocab, merges));
  BpeOptions options;
  options.byte_level = true;
  options.ignore_merges = pre->ignore_merges;
  COLIBRI_ASSIGN_OR_RETURN(parts.model, BpeModel::Build(parts.vocab, std::move(options), merges));
  parts.decoder.Add(MakeByteLevelStage());
  return AddBosAndEos(gguf.add_bos.value_or(pre->add_bos), gguf.add_eos.value_or(false), parts);
}

// SentencePiece joins the neighbours whose joint token scores highest. As merges: every way to cut
// a token into two, ranked by the token's score. Characters without a token may still be halves.
class ScoredMerges {
 public:
  ScoredMerges(const GgufVocab& gguf, const StringTable& vocab) : gguf_(gguf), vocab_(vocab) {}

  Status Find() {
    std::vector<float> scores = gguf_.scores;
    std::sort(scores.begin(), scores.end(), std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    for (size_t id = 0; id < gguf_.tokens.size(); ++id) {
      const std::string_view token = gguf_.tokens[id];
      if (token.size() > kMaxCutToken) {
        return Unsupported(StrCat("tokenizer.ggml.tokens[", id, "]: ", token.size(),
                                  " bytes; at most ", kMaxCutToken, " are possible"));
      }
      const auto rank = static_cast<uint32_t>(
          std::lower_bound(scores.begin(), scores.end(), gguf_.scores[id], std::greater<>()) -
          scores.begin());
      for (size_t cut = 0; !token.empty();) {
        cut += SequenceLength(token[cut]);
        if (cut >= token.size()) break;
        const int32_t left = IdOf(token.substr(0, cut)), right = IdOf(token.substr(cut));
        if (left < 0 || right < 0) continue;
        merges_.push_back(
            {.left = left, .right = right, .merged = static_cast<int32_t>(id), .rank = rank});
      }
    }
    return Status();
  }

  const std::vector<BpeModel::Merge>& merges() const { return merges_; }
  const std::vector<std::string>& pseudo_tokens() const { return pseudo_tokens_; }

 private:
  int32_t IdOf(std::string_view text) {
    const int32_t id = vocab_.Find(text);
    if (id != StringTable::kNone || SequenceLength(text[0]) != text.size()) return id;
    const int32_t known = pseudo_ids_.Find(text);
    if (known != StringTable::kNone) return static_cast<int32_t>(vocab_.id_end()) + known;
    const auto index = static_cast<int32_t>(pseudo_tokens_.size());
    pseudo_tokens_.emplace_back(text);
    pseudo_ids_.Insert(text, index);
    return static_cast<int32_t>(vocab_.id_end()) + index;
  }

  const GgufVocab& gguf_;
  const StringTable& vocab_;
  StringTable pseudo_ids_;
  std::vector<std::string> pseudo_tokens_;
  std::vector<BpeModel::Merge> merges_;
};

Status MakeSentencePiece(const GgufVocab& gguf, TokenizerParts& parts) {
  if (gguf.scores.size() != gguf.tokens.size()) {
    return CorruptData(StrCat("tokenizer.ggml.scores: ", gguf.scores.size(), " entries for ",
                              gguf.tokens.size(), " tokens"));
  }
  if (std::any_of(gguf.scores.begin(), gguf.scores.end(),
                  [](float score) { return std::isnan(score); })) {
    return CorruptData("tokenizer.ggml.scores: not a number");
  }
  ScoredMerges scored(gguf, parts.vocab);
  COLIBRI_RETURN_IF_ERROR(scored.Find());
  BpeOptions options;
  options.byte_fallback = true;
  options.unk_id = parts.special_ids.unk.value_or(StringTable::kNone);
  COLIBRI_ASSIGN_OR_RETURN(parts.model, BpeModel::Build(parts.vocab, std::move(options),
                                                        scored.merges(), scored.pseudo_tokens()));
  const bool space_prefix = gguf.add_space_prefix.value_or(true);
  if (space_prefix) parts.normalizer.Add(MakePrependStep(" "));
  parts.normalizer.Add(MakeReplaceStep(" ", std::string(kMark)));
  if (parts.model->SplitsBefore(kMark, parts.vocab)) {
    parts.pre_tokenizer.push_back(MakeCutBeforeStep(std::string(kMark)));
  }
  parts.decoder.Add(MakeReplaceStage(std::string(kMark), " ", false));
  parts.decoder.Add(MakeByteFallbackStage());
  if (space_prefix) parts.decoder.Add(MakeStripStage(" ", 1, 0, true));
  return AddBosAndEos(gguf.add_bos.value_or(true), gguf.add_eos.value_or(false), parts);
}

Result<std::unique_ptr<Tokenizer>> Make(const GgufVocab& gguf) {
  COLIBRI_RETURN_IF_ERROR(CheckShape(gguf));
  auto parts = std::make_unique<TokenizerParts>();
  COLIBRI_RETURN_IF_ERROR(ReadTokens(gguf, parts->vocab));
  COLIBRI_RETURN_IF_ERROR(ReadSpecialIds(gguf, *parts));
  if (gguf.model == "gpt2") {
    COLIBRI_RETURN_IF_ERROR(MakeByteLevel(gguf, *parts));
  } else if (gguf.model == "llama") {
    COLIBRI_RETURN_IF_ERROR(MakeSentencePiece(gguf, *parts));
  } else {
    return Unsupported(StrCat("tokenizer.ggml.model: '", Printable(gguf.model),
                              "' is not supported; supported are gpt2 and llama"));
  }
  AddTokensOfText(gguf, *parts);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeTokenizerFromGguf(const GgufVocab& vocab) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Make(vocab);
  if (!tokenizer.ok()) return std::move(tokenizer).status().WithContext(vocab.source);
  return tokenizer;
}

}  // namespace colibri
