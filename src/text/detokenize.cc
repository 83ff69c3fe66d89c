#include "text/detokenize.h"

#include <optional>
#include <string_view>

namespace colibri {

std::string StreamDecoder::Push(int32_t id) {
  std::string text;
  if (const std::optional<std::string_view> token =
          tokenizer_.TokenForDecoding(id, skip_special_)) {
    stream_->Push(*token, text);
  }
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text;
  stream_->Finish(text);
  stream_ = tokenizer_.StartDecoding();
  return text;
}

}  // namespace colibri
