// chain_model.h - a tiny Mixtral in a temporary folder whose next token is a table: attention and
// experts add nothing, so that the logits depend on the last token alone.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "engine/engine.h"
#include "format/safetensors_writer.h"

namespace colibri::testing {

inline constexpr int32_t kChainVocab = 64;
inline constexpr int32_t kChainContext = 96;
// Ids of the chain's tokenizer.
inline constexpr int32_t kEndOfText = 0, kImStart = 1, kImEnd = 2, kEot = 3;
inline constexpr int32_t kA = 4;  // 'a' to 'z' are 4 to 29
inline constexpr int32_t kSpace = 30, kNewline = 31, kBang = 32;
inline constexpr int32_t kEmoji = 33;  // its four bytes are 33 to 36
inline constexpr int32_t kNaN = 63;    // its embedding is not a number

struct ChainOptions {
  std::map<int32_t, int32_t> next = {};  // others: the id after it
  std::string eos = "2";                 // config.json's eos_token_id
  std::string generation_eos = {};       // generation_config.json's; empty: no such file
  bool tokenizer = true;
  std::string chat_template = {};            // empty: none
  std::map<std::string, float> poison = {};  // tensors whose first element is this
};

// Removes its folder at the end.
class ChainModel {
 public:
  explicit ChainModel(const ChainOptions& options) {
    static int count = 0;
    path_ = std::filesystem::path(::testing::TempDir()) /
            StrCat("colibri_chain_", static_cast<int64_t>(::getpid()), "_", count++);
    std::filesystem::create_directories(path_);
    WriteConfig(options);
    WriteWeights(options);
    if (options.tokenizer) WriteTokenizer();
    if (!options.chat_template.empty()) Write("chat_template.jinja", options.chat_template);
  }
  ~ChainModel() { std::filesystem::remove_all(path_); }
  ChainModel(const ChainModel&) = delete;
  ChainModel& operator=(const ChainModel&) = delete;

  std::string path() const { return path_.string(); }

 private:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

  void WriteConfig(const ChainOptions& options) const {
    Write("config.json",
          StrCat(R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
 "bos_token_id": 1, "eos_token_id": )",
                 options.eos, R"(, "hidden_act": "silu", "hidden_size": )", kChainVocab,
                 R"(, "intermediate_size": 32, "max_position_embeddings": )", kChainContext,
                 R"(, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
 "num_key_value_heads": 2, "num_local_experts": 4, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
 "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "float32", "vocab_size": )",
                 kChainVocab, "}"));
    if (!options.generation_eos.empty()) {
      Write("generation_config.json", StrCat(R"({"eos_token_id": )", options.generation_eos, "}"));
    }
  }

  void WriteWeights(const ChainOptions& options) const {
    constexpr uint64_t kHidden = kChainVocab, kInner = 32, kExperts = 4, kLayers = 2;
    std::vector<std::pair<TensorToWrite, std::unique_ptr<std::vector<float>>>> owned;
    const auto add = [&](std::string name, std::vector<uint64_t> shape, auto value_of) {
      uint64_t n = 1;
      for (const uint64_t d : shape) n *= d;
      auto values = std::make_unique<std::vector<float>>(n);
      for (uint64_t i = 0; i < n; ++i) (*values)[i] = value_of(i);
      const auto poison = options.poison.find(name);
      if (poison != options.poison.end()) (*values)[0] = poison->second;
      const auto bytes = AsBytes(std::span<const float>(*values));
      owned.emplace_back(TensorToWrite{std::move(name), DType::kF32, std::move(shape), bytes},
                         std::move(values));
    };
    const auto zero = [](uint64_t) { return 0.0f; };
    const auto one = [](uint64_t) { return 1.0f; };
    const auto some = [](uint64_t i) { return static_cast<float>(i * 37 % 101) / 500.0f - 0.1f; };
    add("model.embed_tokens.weight", {kChainVocab, kHidden}, [](uint64_t i) {
      if (i / kHidden == kNaN) return std::numeric_limits<float>::quiet_NaN();
      return i / kHidden == i % kHidden ? 1.0f : 0.0f;
    });
    add("lm_head.weight", {kChainVocab, kHidden}, [&](uint64_t i) {
      const auto row = static_cast<int32_t>(i / kHidden);
      const auto token = static_cast<int32_t>(i % kHidden);
      const auto found = options.next.find(token);
      const int32_t next = found == options.next.end() ? (token + 1) % kChainVocab : found->second;
      return row == next ? 1.0f : some(i);
    });
    add("model.norm.weight", {kHidden}, one);
    for (uint64_t l = 0; l < kLayers; ++l) {
      const std::string layer = StrCat("model.layers.", l, ".");
      add(layer + "input_layernorm.weight", {kHidden}, one);
      add(layer + "post_attention_layernorm.weight", {kHidden}, one);
      add(layer + "self_attn.q_proj.weight", {kHidden, kHidden}, some);
      add(layer + "self_attn.k_proj.weight", {kHidden / 2, kHidden}, some);
      add(layer + "self_attn.v_proj.weight", {kHidden / 2, kHidden}, some);
      add(layer + "self_attn.o_proj.weight", {kHidden, kHidden}, zero);
      add(layer + "block_sparse_moe.gate.weight", {kExperts, kHidden}, some);
      for (uint64_t e = 0; e < kExperts; ++e) {
        const std::string expert = StrCat(layer, "block_sparse_moe.experts.", e, ".");
        add(expert + "w1.weight", {kInner, kHidden}, some);
        add(expert + "w3.weight", {kInner, kHidden}, some);
        add(expert + "w2.weight", {kHidden, kInner}, zero);
      }
    }
    std::vector<TensorToWrite> tensors;
    for (const auto& [tensor, values] : owned) tensors.push_back(tensor);
    const Status written = WriteSafetensors((path_ / "model.safetensors").string(), tensors);
    EXPECT_TRUE(written.ok()) << written.ToString();
  }

  void WriteTokenizer() const {
    // Characters in the alphabet of byte-level BPE; U+1F99C is F0 9F A6 9C.
    std::string vocab = R"("<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2, "<|eot|>": 3)";
    for (int i = 0; i < 26; ++i) {
      vocab += StrCat(", \"", static_cast<char>('a' + i), "\": ", kA + i);
    }
    vocab += R"(, "Ġ": 30, "Ċ": 31, "!": 32, "ð": 33, "Ł": 34, "¦": 35, "ľ": 36)";
    std::string added;
    const std::vector<std::string> special = {"<|endoftext|>", "<|im_start|>", "<|im_end|>",
                                              "<|eot|>"};
    for (size_t id = 0; id < special.size(); ++id) {
      added += StrCat(id == 0 ? "" : ", ", R"({"id": )", id, R"(, "content": ")", special[id],
                      R"(", "single_word": false, "lstrip": false, "rstrip": false,
 "normalized": false, "special": true})");
    }
    Write("tokenizer.json",
          StrCat(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)",
                 added, R"(], "normalizer": null, "pre_tokenizer": {"type": "ByteLevel",
 "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, "post_processor": null,
 "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
 "use_regex": true}, "model": {"type": "BPE", "dropout": null, "unk_token": null,
 "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
 "byte_fallback": false, "ignore_merges": false, "vocab": {)",
                 vocab, R"(}, "merges": []}})"));
  }

  std::filesystem::path path_;
};

// The engine of a chain, or a failure of the running test.
inline std::unique_ptr<Engine> LoadEngine(const std::string& path, EngineOptions options = {}) {
  if (options.n_threads == 0) options.n_threads = 1;
  auto engine = Engine::Create(path, options, {});
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? std::move(engine).value() : nullptr;
}

}  // namespace colibri::testing
