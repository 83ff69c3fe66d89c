#include "text/normalizer.h"

#include <gtest/gtest.h>

#include <chrono>

#include "text/unicode.h"

namespace colibri {
namespace {

std::string Applied(const std::unique_ptr<NormalizerStep>& step, std::string text) {
  step->Apply(text);
  return text;
}

TEST(Normalizer, ComposesAndDecomposes) {
  const std::string composed = "\u00E9", decomposed = "e\u0301";
  EXPECT_EQ(NormalizeUnicode(decomposed, UnicodeForm::kNfc), composed);
  EXPECT_EQ(NormalizeUnicode(composed, UnicodeForm::kNfd), decomposed);
  EXPECT_EQ(NormalizeUnicode("\uFB01", UnicodeForm::kNfkc), "fi");
  EXPECT_EQ(NormalizeUnicode("\uFB01", UnicodeForm::kNfc), "\uFB01");
  EXPECT_EQ(NormalizeUnicode("\u1100\u1161\u11A8", UnicodeForm::kNfc), "\uAC01");  // Hangul
}

TEST(Normalizer, OrdersMarksByClassAndKeepsEqualOnesInOrder) {
  EXPECT_EQ(NormalizeUnicode("q\u0307\u0323\u0301", UnicodeForm::kNfd), "q\u0323\u0307\u0301");
}

// The quick way over plain text and the full way must agree.
TEST(Normalizer, NfcOfAnyMixtureEqualsTheFullAlgorithm) {
  const auto nfc = MakeUnicodeStep(UnicodeForm::kNfc);
  const uint32_t alphabet[] = {'a',    'e',    0xE9,   0x301,   0x323,  0x345,  0x1100, 0x1161,
                               0x11A8, 0xAC00, 0x304B, 0x3099,  0x304C, 0x4E2D, 0x212B, 0x958,
                               0x1EA5, 0x3B1,  0x439,  0x1F600, 0x2126, 0xF900, 0x1AC1};
  uint32_t state = 12345;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i) {
      state = state * 1664525 + 1013904223;
      AppendUtf8(alphabet[(state >> 8) % std::size(alphabet)], text);
    }
    ASSERT_EQ(Applied(nfc, text), NormalizeUnicode(text, UnicodeForm::kNfc)) << text;
  }
}

TEST(Normalizer, ALongRunOfMarksIsNotQuadratic) {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0323";
  const auto begin = std::chrono::steady_clock::now();
  const std::string out = NormalizeUnicode(text, UnicodeForm::kNfc);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(out.size(), text.size());  // both marks join the letter, which becomes three bytes
  EXPECT_LT(elapsed.count(), 60);      // quadratic sorting takes an hour
}

TEST(Normalizer, TheOtherSteps) {
  EXPECT_EQ(Applied(MakeLowercaseStep(), "ÀB\u0130"), "àbi\u0307");
  EXPECT_EQ(Applied(MakePrependStep("x"), "ab"), "xab");
  EXPECT_EQ(Applied(MakePrependStep("x"), ""), "");
  EXPECT_EQ(Applied(MakeReplaceStep("aa", "b"), "aaaa a"), "bb a");
  EXPECT_EQ(Applied(MakeStripStep(true, true), "\u3000 a \n"), "a");
  EXPECT_EQ(Applied(MakeStripStep(true, false), "   "), "");
  EXPECT_EQ(Applied(MakeStripAccentsStep(), "e\u0301"), "e");
  EXPECT_EQ(Applied(MakeByteLevelStep(), " a"), "\u0120a");
}

TEST(Unicode, LossyDecodingReplacesMaximalSubparts) {
  EXPECT_EQ(NextUtf8Unit("\xF0\x9F\x98").complete, false);
  EXPECT_EQ(NextUtf8Unit("\xF0\x9Fx").length, 2U);
  EXPECT_EQ(NextUtf8Unit("\xC0\x80").length, 1U);
  EXPECT_EQ(NextUtf8Unit("\xED\xA0\x80").length, 1U);
  EXPECT_TRUE(NextUtf8Unit("\xF4\x8F\xBF\xBF").valid);
  EXPECT_EQ(NextUtf8Unit("\xF4\x90\x80\x80").length, 1U);
}

}  // namespace
}  // namespace colibri
