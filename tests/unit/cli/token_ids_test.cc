#include "cli/token_ids.h"

#include <gtest/gtest.h>

#include <set>

namespace colibri::cli {
namespace {

using Ids = std::vector<int32_t>;

TEST(ParseTokenIds, TakesSpacesCommasAndLineEnds) {
  const Result<Ids> ids = ParseTokenIds(" 1 2,3,\n 4\t");
  ASSERT_TRUE(ids.ok()) << ids.status().ToString();
  EXPECT_EQ(*ids, (Ids{1, 2, 3, 4}));
}

TEST(ParseTokenIds, OfNothingAreNone) {
  const Result<Ids> ids = ParseTokenIds(" , \n");
  ASSERT_TRUE(ids.ok());
  EXPECT_TRUE(ids->empty());
}

TEST(ParseTokenIds, NamesTheWordThatIsNoId) {
  for (const char* bad : {"1 x", "1 -1", "1 2.5", "1 2147483648", "1 0x10"}) {
    const Result<Ids> ids = ParseTokenIds(bad);
    ASSERT_FALSE(ids.ok()) << bad;
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(ids.status().message().find(std::string(bad).substr(2)), std::string::npos)
        << ids.status().message();
  }
}

TEST(FormatTokenIds, IsWhatParseTakes) {
  const Ids ids = {5, 0, 2147483647};
  EXPECT_EQ(FormatTokenIds(ids), "5 0 2147483647");
  EXPECT_EQ(*ParseTokenIds(FormatTokenIds(ids)), ids);
}

TEST(SyntheticIds, AreTheSameForASeedAndSpreadOverTheVocabulary) {
  const Ids ids = SyntheticIds(1000, 50, 1);
  EXPECT_EQ(ids, SyntheticIds(1000, 50, 1));
  EXPECT_NE(ids, SyntheticIds(1000, 50, 2));
  const std::set<int32_t> seen(ids.begin(), ids.end());
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), 50);
}

}  // namespace
}  // namespace colibri::cli
