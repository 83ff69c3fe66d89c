// engine/text_stream.h - from the tokens of one answer to the text that may be shown: whole
// characters, and no part of a stop string.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stop_matcher.h"

namespace colibri {

class StreamDecoder;
class Tokenizer;

class TextStream {
 public:
  // `tokenizer` may be null, then there is no text; otherwise it must outlive this.
  TextStream(const Tokenizer* tokenizer, std::vector<std::string> stop_strings, bool keep_special);
  ~TextStream();

  // Takes a token. Returns the stop string that ended the text (nothing must be pushed then), or
  // null.
  const std::string* Push(int32_t token);
  // The text is over: what was held back belongs to it. Bytes that never became a character read
  // U+FFFD. Returns the stop string that these bytes completed, or null.
  const std::string* Finish();

  // All text so far that may be shown.
  const std::string& text() const { return text_; }

 private:
  const std::string* Match(std::string_view piece);

  std::unique_ptr<StreamDecoder> decoder_;  // null without a tokenizer
  StopMatcher matcher_;
  std::string text_;
};

}  // namespace colibri
