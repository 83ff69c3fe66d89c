// text/gguf_vocab.h - the vocabulary of a GGUF file, as its metadata holds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace colibri {

// tokenizer.ggml.token_type: what an entry of the vocabulary is for.
enum class GgufTokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never matched in text unless special tokens are parsed; skipped on decode
  kUserDefined = 4,  // matched in text before anything else
  kUnused = 5,
  kByte = 6,  // "<0xNN>"
};

// Filled from the keys beside each member; a key that the file lacks leaves the member empty.
// Nothing is checked here: MakeTokenizerFromGguf checks all of it and names the key at fault.
struct GgufVocab {
  std::string source;                    // the file's name, for messages
  std::string model;                     // tokenizer.ggml.model: "gpt2" or "llama"
  std::string pre;                       // tokenizer.ggml.pre; empty when absent
  std::vector<std::string> tokens;       // tokenizer.ggml.tokens, by id
  std::vector<int32_t> token_types;      // tokenizer.ggml.token_type; empty, or one for each token
  std::vector<float> scores;             // tokenizer.ggml.scores; "llama" needs one for each token
  std::vector<std::string> merges;       // tokenizer.ggml.merges, "left right"; "gpt2" needs them
  std::optional<uint64_t> bos_id;        // tokenizer.ggml.bos_token_id
  std::optional<uint64_t> eos_id;        // tokenizer.ggml.eos_token_id
  std::optional<uint64_t> eot_id;        // tokenizer.ggml.eot_token_id
  std::optional<uint64_t> unk_id;        // tokenizer.ggml.unknown_token_id
  std::optional<uint64_t> pad_id;        // tokenizer.ggml.padding_token_id
  std::optional<bool> add_bos;           // tokenizer.ggml.add_bos_token
  std::optional<bool> add_eos;           // tokenizer.ggml.add_eos_token
  std::optional<bool> add_space_prefix;  // tokenizer.ggml.add_space_prefix
};

}  // namespace colibri
