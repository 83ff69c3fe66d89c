// text/decoder.h - from the strings of tokens back to text: the "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// The state of one text's decoding; see DecoderChain.
class DecoderStream {
 public:
  virtual ~DecoderStream() = default;
  // Takes the next token's string; appends the text that is now certain. Once no stage waits, what
  // was appended so far never changes.
  virtual void Push(std::string_view token, std::string& out) = 0;
  // The text has ended: appends what was held back. Nothing may be pushed afterwards.
  virtual void Finish(std::string& out) = 0;
};

// One stage, as the file configures it. Immutable; makes the states of many texts.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  // A stream that hands its output, token by token, to `next`.
  virtual std::unique_ptr<DecoderStream> Start(std::unique_ptr<DecoderStream> next) const = 0;
};

// The stages in order. Decoding a whole text is pushing its tokens one by one, so that both give
// the same text by construction. A chain that nothing was added to joins the tokens with spaces.
class DecoderChain {
 public:
  void Add(std::unique_ptr<DecoderStage> stage) {
    stages_.push_back(std::move(stage));
    joins_ = true;
  }
  // The tokens are put together as they are, even if no stage is added.
  void Join() { joins_ = true; }
  std::unique_ptr<DecoderStream> Start() const;

 private:
  std::vector<std::unique_ptr<DecoderStage>> stages_;
  bool joins_ = false;
};

// Tokens are bytes in the alphabet of byte-level BPE, and a token with any other character is its
// own UTF-8; all bytes together are decoded with U+FFFD for what is not UTF-8. Joins the tokens.
std::unique_ptr<DecoderStage> MakeByteLevelStage();
// A run of "<0xNN>" tokens becomes its text, or U+FFFD for each byte when the run isn't UTF-8.
std::unique_ptr<DecoderStage> MakeByteFallbackStage();
// Replaces `from` (not empty) by `to`: within each token, or across the text once it is joined.
std::unique_ptr<DecoderStage> MakeReplaceStage(std::string from, std::string to, bool joined);
// Takes away up to `start` leading and `stop` trailing `content` of each token, or of the text.
std::unique_ptr<DecoderStage> MakeStripStage(std::string content, size_t start, size_t stop,
                                             bool joined);
// Replacement characters become spaces; those of the first token vanish when `strip_first`.
std::unique_ptr<DecoderStage> MakeMetaspaceStage(std::string replacement, bool strip_first);

}  // namespace colibri
