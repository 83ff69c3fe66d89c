#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri {
namespace {

struct Outcome {
  std::string text;
  int32_t stop = -1;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& o, std::ostream* out) {
  *out << '"' << o.text << "\", " << o.stop;
}

// Pushes the text in pieces of `piece` bytes.
Outcome Match(const std::vector<std::string>& stops, std::string_view text, size_t piece) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (size_t i = 0; i < text.size(); i += piece) {
    outcome.stop = matcher.Push(text.substr(i, piece), outcome.text);
    if (outcome.stop >= 0) return outcome;
  }
  matcher.Flush(outcome.text);
  return outcome;
}

TEST(StopMatcher, EndsTheTextBeforeTheStopString) {
  for (size_t piece = 1; piece < 12; ++piece) {
    EXPECT_EQ(Match({"END"}, "one END two", piece), (Outcome{"one ", 0}));
    EXPECT_EQ(Match({"END"}, "one EN two", piece), (Outcome{"one EN two", -1}));
    EXPECT_EQ(Match({"END"}, "END", piece), (Outcome{"", 0}));
    EXPECT_EQ(Match({}, "one END", piece), (Outcome{"one END", -1}));
  }
}

TEST(StopMatcher, ReleasesWhatTurnsOutToBeNoStopString) {
  StopMatcher matcher({"\n\nUser:"});
  std::string out;
  EXPECT_EQ(matcher.Push("yes\n", out), -1);
  EXPECT_EQ(out, "yes");
  EXPECT_EQ(matcher.Push("\nUse", out), -1);
  EXPECT_EQ(out, "yes");
  EXPECT_EQ(matcher.Push(" it", out), -1);
  EXPECT_EQ(out, "yes\n\nUse it");
}

TEST(StopMatcher, AFailedStartMayHoldTheRealOne) {
  for (size_t piece = 1; piece < 12; ++piece) {
    EXPECT_EQ(Match({"aab"}, "xaaab", piece), (Outcome{"xa", 0}));
    EXPECT_EQ(Match({"abab!"}, "ababab!", piece), (Outcome{"ab", 0}));
  }
}

TEST(StopMatcher, TheFirstToBeCompleteWinsAndThenTheLongest) {
  for (size_t piece = 1; piece < 12; ++piece) {
    EXPECT_EQ(Match({"bcd", "c"}, "abcd", piece), (Outcome{"ab", 1}));
    EXPECT_EQ(Match({"c", "abc", "bc"}, "xabcd", piece), (Outcome{"x", 1}));
  }
}

TEST(StopMatcher, AgreesWithPlainSearchOnAllShortTexts) {
  const std::vector<std::vector<std::string>> cases = {
      {"aba"}, {"aab", "ba"}, {"bb", "abb", "aaa"}, {"abaab"}, {"b"}};
  for (const auto& stops : cases) {
    for (uint32_t bits = 0; bits < 1024; ++bits) {
      std::string text;
      for (int i = 0; i < 10; ++i) text += (bits >> i & 1) ? 'b' : 'a';
      // The earliest end wins, of the same end the longest string.
      Outcome expected{text, -1};
      size_t best_end = std::string::npos;
      for (size_t s = 0; s < stops.size(); ++s) {
        const size_t at = text.find(stops[s]);
        if (at == std::string::npos) continue;
        const size_t end = at + stops[s].size();
        if (best_end == std::string::npos || end < best_end ||
            (end == best_end && stops[s].size() > stops[expected.stop].size())) {
          best_end = end;
          expected = {text.substr(0, at), static_cast<int32_t>(s)};
        }
      }
      for (const size_t piece : {size_t{1}, size_t{3}, size_t{10}}) {
        ASSERT_EQ(Match(stops, text, piece), expected) << text;
      }
    }
  }
}

TEST(StopMatcher, LongStopStringsTakeLinearTime) {
  const std::string stop = std::string(100000, 'a') + "b";
  const std::string text(2000000, 'a');
  StopMatcher matcher({stop});
  std::string out;
  for (size_t i = 0; i < text.size(); i += 1000) {
    ASSERT_EQ(matcher.Push(std::string_view(text).substr(i, 1000), out), -1);
  }
  matcher.Flush(out);
  EXPECT_EQ(out.size(), text.size());
}

}  // namespace
}  // namespace colibri
