#include "engine/text_stream.h"

#include <utility>

#include "text/detokenize.h"

namespace colibri {

TextStream::TextStream(const Tokenizer* tokenizer, std::vector<std::string> stop_strings,
                       bool keep_special)
    : decoder_(tokenizer == nullptr
                   ? nullptr
                   : std::make_unique<StreamDecoder>(*tokenizer, /*skip_special=*/!keep_special)),
      matcher_(std::move(stop_strings)) {
}

TextStream::~TextStream() = default;

const std::string* TextStream::Push(int32_t token) {
  return decoder_ == nullptr ? nullptr : Match(decoder_->Push(token));
}

const std::string* TextStream::Finish() {
  if (decoder_ == nullptr) return nullptr;
  const std::string* stop = Match(decoder_->Finish());
  if (stop == nullptr) matcher_.Flush(text_);
  return stop;
}

const std::string* TextStream::Match(std::string_view piece) {
  const int32_t stop = matcher_.Push(piece, text_);
  return stop < 0 ? nullptr : &matcher_.stop(stop);
}

}  // namespace colibri
