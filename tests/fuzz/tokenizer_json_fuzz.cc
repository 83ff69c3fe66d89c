// Loads arbitrary bytes as a tokenizer.json (what follows a zero byte is its
// tokenizer_config.json); what loads must encode and decode, and streaming must give the text of
// decoding at once.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/chat_format.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace colibri;
  std::string_view json(reinterpret_cast<const char*>(data), size);
  std::string_view config;
  if (const size_t zero = json.find('\0'); zero != std::string_view::npos) {
    config = json.substr(zero + 1);
    json = json.substr(0, zero);
  }
  const auto loaded = LoadTokenizerJson(json, config, "fuzz");
  if (!loaded.ok()) return 0;
  const Tokenizer& tokenizer = *loaded.value();
  for (const std::string_view text :
       {std::string_view("Hello, world!  \n\n I'm 12345 <|im_end|><s>"),
        std::string_view("caf\xC3\xA9 e\xCC\x81 \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80\t\r\n"),
        json.substr(0, 200)}) {
    const auto ids = tokenizer.Encode(text);
    if (!ids.ok()) continue;
    const std::string whole = tokenizer.Decode(ids.value(), true);
    StreamDecoder stream(tokenizer, true);
    std::string streamed;
    for (const int32_t id : ids.value()) {
      COLIBRI_CHECK(id >= 0 && id < tokenizer.vocab_size());
      const std::string part = stream.Push(id);
      COLIBRI_CHECK(!FindInvalidUtf8(part));
      streamed += part;
    }
    streamed += stream.Finish();
    COLIBRI_CHECK(streamed == whole);
  }
  (void)tokenizer.Decode(std::vector<int32_t>{-1, 0, 1, INT32_MAX});
  if (const auto chat = ChatFormat::Make(tokenizer.chat_template(), tokenizer); chat.ok()) {
    (void)chat.value().Render(std::vector<ChatMessage>{{"user", "hi"}}, true);
  }
  return 0;
}
