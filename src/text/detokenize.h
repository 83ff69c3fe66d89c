// text/detokenize.h - text from tokens as they come, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace colibri {

// Decodes one sequence step by step. Each step gives only whole characters: bytes that may yet
// become one are held back, and for tokenizers with byte fallback a run of byte tokens is held
// until it ends, since one bad byte changes the whole run. All texts together are what
// Tokenizer::Decode gives for all ids. Not safe for concurrent use; the tokenizer must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special), stream_(tokenizer.StartDecoding()) {}

  // The text that is certain with this token; often empty, always valid UTF-8.
  [[nodiscard]] std::string Push(int32_t id);
  // The text that was held back. A new sequence may follow.
  [[nodiscard]] std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::unique_ptr<DecoderStream> stream_;
};

}  // namespace colibri
