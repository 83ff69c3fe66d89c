// text/gguf_pre.h - what the names in tokenizer.ggml.pre stand for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// How byte-level BPE of that name cuts text. The patterns are those of the models' own
// tokenizer.json, applied one after the other, each match a piece of its own.
struct GgufPreTokenizer {
  std::vector<std::string_view> patterns;
  bool nfc = false;            // the models' own normalizer, which GGUF does not record
  bool ignore_merges = false;  // a piece that is a token is that token
  bool add_bos = false;        // when the file does not say
};

// The row of `name`, or null. The empty name is that of files written before the key existed.
const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name);

// All names, for messages.
std::vector<std::string> GgufPreTokenizerNames();

}  // namespace colibri
