#include <gtest/gtest.h>

#include <cmath>

#include "text_test_support.h"

namespace colibri {
namespace {

using testing::EncodeOk;

// "llama": every merge of "hello" is there, and bytes; scores fall with the id.
GgufVocab LlamaVocab() {
  GgufVocab vocab;
  vocab.source = "test.gguf";
  vocab.model = "llama";
  const auto add = [&](const std::string& token, GgufTokenType type, float score) {
    vocab.tokens.push_back(token);
    vocab.token_types.push_back(static_cast<int32_t>(type));
    vocab.scores.push_back(score);
  };
  add("<unk>", GgufTokenType::kUnknown, 0);
  add("<s>", GgufTokenType::kControl, 0);
  add("</s>", GgufTokenType::kControl, 0);
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof(token), "<0x%02X>", byte);
    add(token, GgufTokenType::kByte, 0);
  }
  for (const char* token : {"▁", "h", "e", "l", "o", "ll", "he", "hell", "▁hell", "hello"}) {
    add(token, GgufTokenType::kNormal, -static_cast<float>(vocab.tokens.size()));
  }
  add("<tool>", GgufTokenType::kUserDefined, 0);
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  vocab.unk_id = 0;
  return vocab;
}

int32_t IdOf(const GgufVocab& vocab, std::string_view token) {
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    if (vocab.tokens[i] == token) return static_cast<int32_t>(i);
  }
  ADD_FAILURE() << token;
  return -1;
}

std::unique_ptr<Tokenizer> Make(const GgufVocab& vocab) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizerFromGguf(vocab);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

TEST(TokenizerGguf, LlamaMergesByScore) {
  const GgufVocab vocab = LlamaVocab();
  const auto tokenizer = Make(vocab);
  ASSERT_NE(tokenizer, nullptr);
  // "▁hell" scores above "hello", so the o stays alone.
  EXPECT_EQ(EncodeOk(*tokenizer, "hello"),
            (std::vector<int32_t>{1, IdOf(vocab, "▁hell"), IdOf(vocab, "o")}));
  EXPECT_EQ(tokenizer->Decode(EncodeOk(*tokenizer, "hello"), true), "hello");
}

TEST(TokenizerGguf, LlamaFallsBackToBytesAndPrefixesASpace) {
  GgufVocab vocab = LlamaVocab();
  const auto tokenizer = Make(vocab);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(EncodeOk(*tokenizer, "é", {.add_special_tokens = false}),
            (std::vector<int32_t>{IdOf(vocab, "▁"), 3 + 0xC3, 3 + 0xA9}));
  vocab.add_space_prefix = false;
  vocab.add_bos = false;
  const auto bare = Make(vocab);
  ASSERT_NE(bare, nullptr);
  EXPECT_EQ(EncodeOk(*bare, "e"), (std::vector<int32_t>{IdOf(vocab, "e")}));
}

TEST(TokenizerGguf, ControlTokensAreTextUnlessParsedAndUserDefinedOnesAlwaysMatch) {
  const GgufVocab vocab = LlamaVocab();
  const auto tokenizer = Make(vocab);
  ASSERT_NE(tokenizer, nullptr);
  const EncodeOptions plain{.add_special_tokens = false, .parse_special_in_text = false};
  const EncodeOptions parsed{.add_special_tokens = false, .parse_special_in_text = true};
  EXPECT_EQ(EncodeOk(*tokenizer, "</s>", parsed), (std::vector<int32_t>{2}));
  EXPECT_GT(EncodeOk(*tokenizer, "</s>", plain).size(), 1U);
  EXPECT_EQ(EncodeOk(*tokenizer, "<tool>", plain), (std::vector<int32_t>{IdOf(vocab, "<tool>")}));
  EXPECT_TRUE(tokenizer->IsSpecial(2));
  EXPECT_FALSE(tokenizer->IsSpecial(IdOf(vocab, "<tool>")));
}

TEST(TokenizerGguf, NanoAsGgufGivesTheIdsOfItsTokenizerJson) {
  COLIBRI_REQUIRE_ASSETS();
  const auto from_json = testing::LoadAsset("models/nano");
  ASSERT_NE(from_json, nullptr);
  // The vocabulary as the converter writes it to GGUF.
  GgufVocab vocab;
  vocab.model = "gpt2";
  vocab.pre = "qwen2";
  for (int32_t id = 0; id < from_json->vocab_size(); ++id) {
    vocab.tokens.emplace_back(from_json->IdToToken(id));
    vocab.token_types.push_back(from_json->IsSpecial(id) ? 3 : 1);
  }
  simdjson::dom::parser parser;
  const simdjson::dom::element file =
      parser.load(testing::AssetsDir() + "/models/nano/tokenizer.json");
  for (const simdjson::dom::element merge : file["model"]["merges"].get_array()) {
    const std::string_view left = merge.at(0), right = merge.at(1);
    vocab.merges.push_back(std::string(left) + " " + std::string(right));
  }
  vocab.eos_id = 2;
  const auto from_gguf = Make(vocab);
  ASSERT_NE(from_gguf, nullptr);
  simdjson::dom::parser lines;
  for (const simdjson::dom::element line :
       lines.load_many(testing::AssetsDir() + "/tokenizers/qwen3/golden.jsonl", 1 << 24)) {
    const std::string_view text = line["text"];
    const std::vector<int32_t> ids = EncodeOk(*from_json, text);
    ASSERT_EQ(EncodeOk(*from_gguf, text), ids) << text;
    ASSERT_EQ(from_gguf->Decode(ids), from_json->Decode(ids)) << text;
  }
}

void ExpectRefused(const GgufVocab& vocab, StatusCode code, std::string_view says) {
  const auto tokenizer = MakeTokenizerFromGguf(vocab);
  ASSERT_FALSE(tokenizer.ok()) << says;
  EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status().ToString();
  EXPECT_NE(tokenizer.status().message().find(says), std::string::npos)
      << tokenizer.status().ToString();
}

TEST(TokenizerGguf, BrokenVocabulariesAreRefusedByKey) {
  GgufVocab vocab = LlamaVocab();
  vocab.model = "bert";
  ExpectRefused(vocab, StatusCode::kUnsupported, "tokenizer.ggml.model: 'bert'");
  vocab = LlamaVocab();
  vocab.tokens.clear();
  ExpectRefused(vocab, StatusCode::kCorruptData, "tokenizer.ggml.tokens");
  vocab = LlamaVocab();
  vocab.scores.pop_back();
  ExpectRefused(vocab, StatusCode::kCorruptData, "tokenizer.ggml.scores");
  vocab = LlamaVocab();
  vocab.scores[5] = std::nanf("");
  ExpectRefused(vocab, StatusCode::kCorruptData, "not a number");
  vocab = LlamaVocab();
  vocab.token_types[0] = 99;
  ExpectRefused(vocab, StatusCode::kCorruptData, "token_type[0]");
  vocab = LlamaVocab();
  vocab.token_types.pop_back();
  ExpectRefused(vocab, StatusCode::kCorruptData, "tokenizer.ggml.token_type");
  vocab = LlamaVocab();
  vocab.tokens[300 - 33] = "h\xFF";
  ExpectRefused(vocab, StatusCode::kCorruptData, "UTF-8");
  vocab = LlamaVocab();
  vocab.tokens[4] = vocab.tokens[3];
  ExpectRefused(vocab, StatusCode::kCorruptData, "twice");
  vocab = LlamaVocab();
  vocab.bos_id = uint64_t{1} << 40;
  ExpectRefused(vocab, StatusCode::kCorruptData, "bos_token_id");
  vocab = LlamaVocab();
  vocab.bos_id.reset();
  ExpectRefused(vocab, StatusCode::kCorruptData, "add_bos_token");
  vocab = LlamaVocab();
  vocab.model = "gpt2";
  vocab.pre = "no-such-kind";
  ExpectRefused(vocab, StatusCode::kUnsupported, "qwen2");  // names what is known
  vocab.pre = "gpt-2";
  ExpectRefused(vocab, StatusCode::kCorruptData, "tokenizer.ggml.merges: missing");
  vocab.merges = {"h x"};
  ExpectRefused(vocab, StatusCode::kCorruptData, "merges[0]");
  vocab.merges = {"hx"};
  ExpectRefused(vocab, StatusCode::kCorruptData, "merges[0]");
}

}  // namespace
}  // namespace colibri
