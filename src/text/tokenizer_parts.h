// text/tokenizer_parts.h - what a loader puts together and a Tokenizer runs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/string_table.h"
#include "text/tokenizer.h"

namespace colibri {

// Ids are below this: what a file says beyond it is a fault, not a vocabulary. Tables have room for
// every id up to the highest, so that one entry decides what they take: tens of MB at this cap. The
// largest known vocabularies have 300 thousand.
inline constexpr int64_t kMaxTokenIds = int64_t{1} << 21;

struct TokenizerParts {
  StringTable vocab;             // tokens of the model and added ones, as the files spell them
  std::vector<uint8_t> special;  // [vocab.id_end()]
  // Added tokens that normalization changes are decoded as it leaves them, and are then never taken
  // for special: Hugging Face looks the changed spelling up.
  std::map<int32_t, std::string> normalized_spelling;
  AddedTokenMatcher raw_tokens;         // looked for in the text as it comes
  AddedTokenMatcher normalized_tokens;  // looked for once the text is normalized
  Normalizer normalizer;
  std::vector<std::unique_ptr<PreTokenizerStep>> pre_tokenizer;
  std::unique_ptr<BpeModel> model;
  std::vector<int32_t> prefix_ids;  // added with add_special_tokens
  std::vector<int32_t> suffix_ids;
  DecoderChain decoder;
  SpecialTokenIds special_ids;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::string chat_template;

  // Takes one more token: into the vocabulary where it isn't there yet, and into the matcher it
  // belongs to. `token.content` is as the file spells it and not empty.
  void AddToken(const AddedToken& token);
};

}  // namespace colibri
