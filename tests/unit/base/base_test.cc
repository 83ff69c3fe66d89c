#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/status.h"
#include "base/strings.h"

namespace colibri {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument(StrCat(x, " is odd"));
  return x / 2;
}

Status Quarter(int x, int& out) {
  COLIBRI_ASSIGN_OR_RETURN(const int half, Half(x));
  COLIBRI_ASSIGN_OR_RETURN(out, Half(half));
  return Status();
}

TEST(Status, ContextStandsBeforeTheMessage) {
  const Status status = CorruptData("bad length").WithContext("file x");
  EXPECT_EQ(status.ToString(), "corrupt data: file x: bad length");
  EXPECT_EQ(Status().ToString(), "ok");
}

TEST(Result, AssignOrReturnPassesTheErrorOn) {
  int out = 0;
  EXPECT_TRUE(Quarter(12, out).ok());
  EXPECT_EQ(out, 3);
  EXPECT_EQ(Quarter(6, out).message(), "3 is odd");
}

TEST(Checked, OverflowGivesNothing) {
  EXPECT_EQ(CheckedMul(1u << 31, 2), uint64_t{1} << 32);
  EXPECT_FALSE(CheckedMul(uint64_t{1} << 63, 2));
  EXPECT_FALSE(CheckedAdd(~uint64_t{0}, 1));
}

TEST(Strings, NumbersAndBytesReadWell) {
  EXPECT_EQ(StrCat("a", 1, 'b', 2.5), "a1b2.5");
  EXPECT_EQ(FormatBytes(18786400), "17.9 MiB");
  EXPECT_EQ(FormatBytes(12), "12 B");
  EXPECT_EQ(ShapeString({2, 3}), "[2, 3]");
  EXPECT_EQ(ParseInt("-12"), -12);
  EXPECT_FALSE(ParseInt("12x"));
  EXPECT_EQ(Printable("a\nb"), "a\\x0ab");
}

}  // namespace
}  // namespace colibri
