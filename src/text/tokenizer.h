// text/tokenizer.h - text to token ids and back, exactly as the model's own tokenizer does it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/gguf_vocab.h"

namespace colibri {

struct EncodeOptions {
  // Adds what the tokenizer's own template puts around a text (for many models a BOS token).
  bool add_special_tokens = true;
  // Finds special tokens that the text spells out. Without it they are plain text; added tokens
  // that are not special are found in any case.
  bool parse_special_in_text = true;
};

// The ids that the files name for a purpose; empty where they name none.
struct SpecialTokenIds {
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> eot;  // end of a turn, GGUF only; often the same as eos
  std::optional<int32_t> unk;
  std::optional<int32_t> pad;
};

struct TokenizerParts;
class DecoderStream;

// A tokenizer. Immutable once made; every method may be called from many threads at once.
class Tokenizer {
 public:
  explicit Tokenizer(std::unique_ptr<TokenizerParts> parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of `text`. Fails with InvalidArgument when the text isn't valid UTF-8, naming the
  // offset of the first bad byte, or is larger than kMaxTextBytes. Time is O(n log n) at worst.
  [[nodiscard]] Result<std::vector<int32_t>> Encode(std::string_view text,
                                                    const EncodeOptions& options = {}) const;
  static constexpr size_t kMaxTextBytes = size_t{1} << 30;
  // The same, and the number of elementary steps it took (see RegexScratch and BpeScratch).
  [[nodiscard]] Result<std::vector<int32_t>> EncodeCountingSteps(std::string_view text,
                                                                 const EncodeOptions& options,
                                                                 uint64_t& steps) const;

  // The text of `ids`; what is not valid UTF-8 becomes U+FFFD. Ids without a token are passed over,
  // as Hugging Face does: models have more rows than their tokenizers have tokens. With
  // `skip_special` special tokens are left out.
  [[nodiscard]] std::string Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // One above the highest id.
  int32_t vocab_size() const;
  // The id of a token as the files spell it ("Ġthe", "<|im_end|>").
  std::optional<int32_t> TokenToId(std::string_view token) const;
  // The token as the files spell it; empty when there is none.
  std::string_view IdToToken(int32_t id) const;
  // The bytes that the token stands for in a text, before any decoder that looks at neighbours.
  std::string IdToBytes(int32_t id) const;
  // True for special tokens: those that Decode skips.
  bool IsSpecial(int32_t id) const;
  const SpecialTokenIds& special_ids() const;
  // What tokenizer_config.json or the GGUF metadata say of BOS and EOS; empty when they don't.
  // Encode follows them for GGUF only: tokenizer.json has its own template.
  std::optional<bool> add_bos() const;
  std::optional<bool> add_eos() const;
  // The chat template of tokenizer_config.json; empty when there is none.
  const std::string& chat_template() const;

  // The decoder's state for one text, and what to push into it for a token; StreamDecoder
  // (detokenize.h) is the way to use both.
  std::unique_ptr<DecoderStream> StartDecoding() const;
  std::optional<std::string_view> TokenForDecoding(int32_t id, bool skip_special) const;

 private:
  std::unique_ptr<TokenizerParts> parts_;
};

// Reads a Hugging Face tokenizer.json and, where it is not empty, the tokenizer_config.json beside
// it. `name` stands in error messages. The model is BPE; a component that isn't
// known here is Unsupported, by name. Truncation and padding, which are a caller's business, are
// not applied.
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> LoadTokenizerJson(
    std::string_view tokenizer_json, std::string_view tokenizer_config_json, std::string name);

// Makes the tokenizer that a GGUF file describes: "gpt2" (byte-level BPE, its pre-tokenizer by the
// `pre` name) or "llama" (SentencePiece BPE by scores).
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> MakeTokenizerFromGguf(const GgufVocab& vocab);

}  // namespace colibri
