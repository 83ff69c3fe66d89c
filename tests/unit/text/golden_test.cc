#include <gtest/gtest.h>

#include "text/detokenize.h"
#include "text/unicode.h"
#include "text_test_support.h"

namespace colibri {
namespace {

using testing::Ids;
using testing::LoadAsset;

class TokenizerGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TokenizerGolden, EveryLineIsExact) {
  COLIBRI_REQUIRE_ASSETS();
  const auto tokenizer = LoadAsset("tokenizers/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  simdjson::dom::parser parser;
  size_t n_lines = 0;
  for (const simdjson::dom::element line : parser.load_many(
           testing::AssetsDir() + "/tokenizers/" + GetParam() + "/golden.jsonl", 1 << 24)) {
    const std::string_view text = line["text"];
    const std::vector<int32_t> ids = testing::EncodeOk(*tokenizer, text);
    ASSERT_EQ(ids, Ids(line["ids"])) << GetParam() << ": " << text;
    ASSERT_EQ(testing::EncodeOk(*tokenizer, text, {.add_special_tokens = false}),
              Ids(line["ids_bare"]))
        << GetParam() << ": " << text;
    ASSERT_EQ(tokenizer->Decode(ids), std::string_view(line["decoded"])) << text;
    ASSERT_EQ(tokenizer->Decode(ids, true), std::string_view(line["decoded_skip"])) << text;
    ++n_lines;
  }
  EXPECT_GT(n_lines, 1000U);
}

TEST_P(TokenizerGolden, StreamingGivesTheSameTextInWholeCharacters) {
  COLIBRI_REQUIRE_ASSETS();
  const auto tokenizer = LoadAsset("tokenizers/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  simdjson::dom::parser parser;
  StreamDecoder stream(*tokenizer, false);
  for (const simdjson::dom::element line : parser.load_many(
           testing::AssetsDir() + "/tokenizers/" + GetParam() + "/golden.jsonl", 1 << 24)) {
    std::string streamed;
    for (const int32_t id : Ids(line["ids"])) {
      const std::string part = stream.Push(id);
      ASSERT_FALSE(FindInvalidUtf8(part)) << GetParam();
      streamed += part;
    }
    streamed += stream.Finish();
    ASSERT_EQ(streamed, std::string_view(line["decoded"])) << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Text, TokenizerGolden,
                         ::testing::Values("qwen3", "gptoss", "deepseek_v3", "mistral_v1"),
                         [](const auto& param) { return param.param; });

// One letter, spaces, newlines, digits and what else has made tokenizers quadratic. The bound is on
// the work, which does not depend on the machine.
TEST_P(TokenizerGolden, WorkIsLinearInTheText) {
  COLIBRI_REQUIRE_ASSETS();
  const auto tokenizer = LoadAsset("tokenizers/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  constexpr size_t kBytes = 1 << 20;
  for (const std::string_view unit :
       {"a", "A", " ", "\n", "1", "!", "\r\n", "aA", "'s", " a", "\t ", "\xE4\xB8\xAD", "\xCC\x81",
        "\xF0\x9F\x98\x80", "ab", "a\xCC\x81"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    for (const std::string_view tail : {"", "x"}) {
      uint64_t steps = 0;
      const auto ids = tokenizer->EncodeCountingSteps(text + std::string(tail), {}, steps);
      ASSERT_TRUE(ids.ok());
      EXPECT_LT(steps, 20 * kBytes) << GetParam() << ": " << unit;
    }
  }
}

TEST(TokenizerGolden, SpecialTokensAreFoundBehindPunctuation) {
  COLIBRI_REQUIRE_ASSETS();
  const auto tokenizer = LoadAsset("models/nano");
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<int32_t> ids = testing::EncodeOk(*tokenizer, ".<|im_end|>!<|im_start|>");
  ASSERT_EQ(ids.size(), 4U);
  EXPECT_EQ(ids[1], 2);
  EXPECT_EQ(ids[3], 1);
  EXPECT_TRUE(tokenizer->IsSpecial(1));
  EXPECT_EQ(tokenizer->Decode(ids, true), ".!");
  for (const int32_t id :
       testing::EncodeOk(*tokenizer, ".<|im_end|>", {.parse_special_in_text = false})) {
    EXPECT_FALSE(tokenizer->IsSpecial(id));
  }
}

TEST(TokenizerGolden, ConfigNamesTheSpecialTokens) {
  COLIBRI_REQUIRE_ASSETS();
  const auto nano = LoadAsset("models/nano");
  ASSERT_NE(nano, nullptr);
  EXPECT_EQ(nano->special_ids().eos, 2);
  EXPECT_EQ(nano->special_ids().pad, 0);
  EXPECT_FALSE(nano->special_ids().bos.has_value());
  EXPECT_EQ(nano->add_bos(), false);
  EXPECT_EQ(nano->vocab_size(), 3072);
  EXPECT_EQ(nano->TokenToId("<|im_start|>"), 1);
  EXPECT_FALSE(nano->TokenToId("no such token").has_value());
}

}  // namespace
}  // namespace colibri
