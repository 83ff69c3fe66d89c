#include "format/metadata.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

Metadata Sample() {
  Metadata m("m/config.json");
  m.Set("null", std::monostate());
  m.Set("int", int64_t{3});
  m.Set("whole", 4.0);
  m.Set("half", 0.5);
  m.Set("huge", 1e300);
  m.Set("flag", true);
  m.Set("text", std::string("x"));
  m.Set("ints", std::vector<int64_t>{0, 1});
  m.Set("doubles", std::vector<double>{1.0, 2.5});
  m.Set("empty", std::vector<int64_t>());
  m.Set("rope.factor", 2.0);
  m.Set("gone.a", std::monostate());
  m.Set("raw", RawJson{"{}"});
  return m;
}

TEST(Metadata, AbsentAndNullReadAsNothing) {
  const Metadata m = Sample();
  for (const char* key : {"absent", "null"}) {
    EXPECT_FALSE(m.Has(key));
    const auto value = m.GetInt(key);
    ASSERT_TRUE(value.ok());
    EXPECT_FALSE(value->has_value());
  }
  EXPECT_NE(m.Find("null"), nullptr);
  EXPECT_EQ(m.Find("absent"), nullptr);
}

TEST(Metadata, NumbersConvertWhenNothingIsLost) {
  const Metadata m = Sample();
  EXPECT_EQ(*m.GetInt("whole"), 4);
  EXPECT_EQ(*m.GetDouble("int"), 3.0);
  EXPECT_EQ(m.GetInt("half").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(m.GetInt("huge").status().code(), StatusCode::kInvalidArgument);
}

TEST(Metadata, AWrongKindNamesFileKeyAndBothKinds) {
  const Metadata m = Sample();
  const Status status = m.GetInt("text").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "m/config.json: key text is a string; it should be an integer");
  EXPECT_FALSE(m.GetBool("int").ok());
  EXPECT_FALSE(m.GetString("flag").ok());
  EXPECT_FALSE(m.GetDouble("ints").ok());
  EXPECT_FALSE(m.GetString("raw").ok());
  EXPECT_FALSE(m.GetStrings("ints").ok());
  EXPECT_FALSE(m.GetInts("raw").ok());
}

TEST(Metadata, AScalarReadsAsAListOfOne) {
  const Metadata m = Sample();
  EXPECT_EQ(*m.GetInts("int"), std::vector<int64_t>{3});
  EXPECT_EQ(*m.GetDoubles("half"), std::vector<double>{0.5});
  EXPECT_EQ(*m.GetStrings("text"), std::vector<std::string>{"x"});
  EXPECT_EQ(*m.GetBools("flag"), std::vector<bool>{true});
}

TEST(Metadata, ListsConvertLikeTheirElements) {
  const Metadata m = Sample();
  EXPECT_EQ(*m.GetDoubles("ints"), (std::vector<double>{0, 1}));
  EXPECT_EQ(*m.GetBools("ints"), (std::vector<bool>{false, true}));
  EXPECT_FALSE(m.GetInts("doubles").ok());
  EXPECT_FALSE(m.GetBools("doubles").ok());
}

TEST(Metadata, AnEmptyListIsAListOfAnyKind) {
  const Metadata m = Sample();
  EXPECT_EQ(*m.GetInts("empty"), std::vector<int64_t>());
  EXPECT_EQ(*m.GetDoubles("empty"), std::vector<double>());
  EXPECT_EQ(*m.GetStrings("empty"), std::vector<std::string>());
  EXPECT_EQ(*m.GetBools("empty"), std::vector<bool>());
}

TEST(Metadata, APrefixIsThereWhenOneOfItsKeysIsNotNull) {
  const Metadata m = Sample();
  EXPECT_TRUE(m.HasPrefix("rope."));
  EXPECT_FALSE(m.HasPrefix("gone."));
  EXPECT_FALSE(m.HasPrefix("absent."));
}

}  // namespace
}  // namespace colibri
