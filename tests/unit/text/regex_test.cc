#include "text/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/gguf_pre.h"
#include "text/pre_tokenizer.h"

namespace colibri {
namespace {

const UnicodeProperties& Properties() {
  static const UnicodeProperties properties;
  return properties;
}

std::vector<std::string> Matches(std::string_view pattern, std::string_view text,
                                 uint64_t* steps = nullptr) {
  const Result<Regex> regex = Regex::Compile(pattern, Properties());
  EXPECT_TRUE(regex.ok()) << regex.status().ToString();
  std::vector<std::string> matches;
  if (!regex.ok()) return matches;
  RegexScratch scratch;
  regex.value().ForEachMatch(text, scratch, [&](size_t begin, size_t end) {
    matches.emplace_back(text.substr(begin, end - begin));
  });
  if (steps != nullptr) *steps = scratch.steps;
  return matches;
}

using Strings = std::vector<std::string>;

TEST(Regex, TheFirstAlternativeThatMatchesWins) {
  EXPECT_EQ(Matches("a|ab", "ab"), (Strings{"a"}));
  EXPECT_EQ(Matches("ab|a", "aba"), (Strings{"ab", "a"}));
}

TEST(Regex, GreedyLoopsGiveBackWhatTheRestNeeds) {
  EXPECT_EQ(Matches("a*ab", "aaab"), (Strings{"aaab"}));
  EXPECT_EQ(Matches(R"(\s+(?!\S)|\s+)", "a   b"), (Strings{"  ", " "}));
  EXPECT_EQ(Matches(R"(\s*[\r\n]+|\s+)", "  \n \n x"), (Strings{"  \n \n", " "}));
  EXPECT_EQ(Matches("a+?", "aaa"), (Strings{"a", "a", "a"}));
}

TEST(Regex, PossessiveLoopsGiveNothingBack) {
  EXPECT_EQ(Matches("a++ab", "aaab"), Strings());
  EXPECT_EQ(Matches("x?+a", "xa"), (Strings{"xa"}));
}

TEST(Regex, CountsAndNestedRepetition) {
  EXPECT_EQ(Matches(R"(\p{N}{1,3})", "1234567"), (Strings{"123", "456", "7"}));
  EXPECT_EQ(Matches(R"((?:ab){2})", "ababab"), (Strings{"abab"}));
  EXPECT_EQ(Matches("a{,2}b", "aab"), (Strings{"aab"}));
  EXPECT_EQ(Matches("a{x", "a{x"), (Strings{"a{x"}));
  EXPECT_EQ(Matches(R"((?:a{1,2})+b)", "aaaaab"), (Strings{"aaaaab"}));
}

TEST(Regex, ClassesNestIntersectAndNegate) {
  EXPECT_EQ(Matches(R"([a-z&&[^aeiou]]+)", "abcde"), (Strings{"bcd"}));
  EXPECT_EQ(Matches(R"([^\s\p{L}]+)", "ab12 c!"), (Strings{"12", "!"}));
  EXPECT_EQ(Matches(R"([\p{L}&&[^\p{Han}]]+)", "ab中é"), (Strings{"ab", "é"}));
  EXPECT_EQ(Matches(R"([\]\-]+)", "a]-"), (Strings{"]-"}));
  EXPECT_EQ(Matches(R"(\P{L}+|\p{^N})", "1a"), (Strings{"1", "a"}));
}

TEST(Regex, IgnoringCaseFoldsTheLongSToo) {
  EXPECT_EQ(Matches("(?i:'s|'re)", "'S'RE'ſ's"), (Strings{"'S", "'RE", "'ſ", "'s"}));
  EXPECT_EQ(Matches("(?i:a)b", "AbAB"), (Strings{"Ab"}));
}

TEST(Regex, AnchorsAreThoseOfLines) {
  EXPECT_EQ(Matches(R"(\s+$)", "a  \nb "), (Strings{"  ", " "}));
  EXPECT_EQ(Matches("^a", "a\na"), (Strings{"a", "a"}));
  EXPECT_EQ(Matches(R"(\Aa)", "a\na"), (Strings{"a"}));
  EXPECT_EQ(Matches(R"(\bcat\b)", "cat cats"), (Strings{"cat"}));
}

TEST(Regex, SyntaxOutsideTheSubsetIsNamed) {
  for (const std::string_view pattern :
       {"(?<=a)b", "(?=ab)c", R"(\p{Greek})", R"((a)\1)", "[[:alpha:]]", "(?>a)", "(?:a?)*",
        "(?:ab)++", "a{3000}", R"(\y)"}) {
    const Result<Regex> regex = Regex::Compile(pattern, Properties());
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.status().code(), StatusCode::kUnsupported) << regex.status().ToString();
    EXPECT_NE(regex.status().message().find(pattern), std::string::npos);
  }
  for (const std::string_view pattern : {"(a", "a)", "[a", "*a", R"(\p{L)", "a\\", "[b-a]"}) {
    const Result<Regex> regex = Regex::Compile(pattern, Properties());
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.status().code(), StatusCode::kInvalidArgument) << regex.status().ToString();
  }
}

TEST(Regex, DeepNestingIsRefused) {
  EXPECT_FALSE(
      Regex::Compile(std::string(5000, '(') + "a" + std::string(5000, ')'), Properties()).ok());
  EXPECT_FALSE(
      Regex::Compile(std::string(5000, '[') + "a" + std::string(5000, ']'), Properties()).ok());
}

// Patterns that backtracking makes quadratic or exponential.
TEST(Regex, PatternsFarLargerThanRealOnesAreRefused) {
  EXPECT_TRUE(Regex::Compile(std::string(500, 'a'), Properties()).ok());
  for (const std::string& pattern :
       {std::string(2000, 'a'), "[" + std::string(100'000, 'a') + "]"}) {
    const auto regex = Regex::Compile(pattern, Properties());
    ASSERT_FALSE(regex.ok());
    EXPECT_EQ(regex.status().code(), StatusCode::kUnsupported) << regex.status().ToString();
  }
}

TEST(Regex, WorkIsLinearWhateverThePattern) {
  constexpr size_t kBytes = 200'000;
  struct Case {
    std::string_view pattern;
    std::string_view unit;
  };
  for (const Case& c :
       {Case{"a+b", "a"}, Case{"a*a*a*b", "a"}, Case{"(?:a+)+b", "a"}, Case{"(?:a|aa)+b", "a"},
        Case{"a++b", "a"}, Case{R"(\s+x|\s)", " "}, Case{R"(\w+\d{2,4}!)", "12"}}) {
    std::string text;
    while (text.size() < kBytes) text += c.unit;
    uint64_t steps = 0;
    Matches(c.pattern, text, &steps);
    EXPECT_LT(steps, 60 * kBytes) << c.pattern;
  }
}

// Remembering failures must not change what is found.
TEST(Regex, RememberingFailuresChangesNoMatch) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += i % 7 == 0 ? "aaab" : i % 5 == 0 ? "ab " : "aa";
  const std::string_view pattern = "(?:a|aa)+b|a+ |a";
  const Strings whole = Matches(pattern, text);
  std::string joined;
  for (const std::string& match : whole) joined += match;
  // Cut behind a space, where no match continues, every part is short enough to be matched plainly.
  Strings parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size() - 1) + 1;
    for (std::string& match : Matches(pattern, std::string_view(text).substr(begin, end - begin))) {
      parts.push_back(std::move(match));
    }
    begin = end;
  }
  EXPECT_EQ(whole, parts);
}

TEST(Regex, EveryPatternOfGgufNamesCompiles) {
  for (const std::string& name : GgufPreTokenizerNames()) {
    const GgufPreTokenizer* pre = FindGgufPreTokenizer(name);
    ASSERT_NE(pre, nullptr);
    for (const std::string_view pattern : pre->patterns) {
      EXPECT_TRUE(Regex::Compile(pattern, Properties()).ok()) << name;
    }
  }
}

TEST(Split, EveryBehavior) {
  const auto pieces = [](SplitBehavior behavior, bool invert) {
    Result<Regex> regex = Regex::Compile("-", Properties());
    PieceList list;
    list.text = "a--b-";
    list.Reset(true);
    PreTokenizerScratch scratch;
    MakeSplitStep(std::move(regex).value(), behavior, invert)->Apply(list, scratch);
    Strings out;
    size_t begin = 0;
    for (const size_t end : list.ends) {
      out.push_back(list.text.substr(begin, end - begin));
      begin = end;
    }
    return out;
  };
  EXPECT_EQ(pieces(SplitBehavior::kRemoved, false), (Strings{"a", "b"}));
  EXPECT_EQ(pieces(SplitBehavior::kRemoved, true), (Strings{"-", "-", "-"}));
  EXPECT_EQ(pieces(SplitBehavior::kIsolated, false), (Strings{"a", "-", "-", "b", "-"}));
  EXPECT_EQ(pieces(SplitBehavior::kMergedWithPrevious, false), (Strings{"a-", "-", "b-"}));
  EXPECT_EQ(pieces(SplitBehavior::kMergedWithNext, false), (Strings{"a", "-", "-b", "-"}));
  EXPECT_EQ(pieces(SplitBehavior::kContiguous, false), (Strings{"a", "--", "b", "-"}));
}

}  // namespace
}  // namespace colibri
