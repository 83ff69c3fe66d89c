#include "format/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"

namespace colibri {
namespace {

Metadata Flatten(std::string_view json) {
  auto config = FlattenConfig(json, "m/config.json");
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? std::move(*config) : Metadata();
}

void ExpectRefused(std::string_view json, StatusCode code, std::string_view word) {
  const auto config = FlattenConfig(json, "m/config.json");
  ASSERT_FALSE(config.ok()) << word;
  EXPECT_EQ(config.status().code(), code) << config.status().ToString();
  EXPECT_NE(config.status().message().find(word), std::string::npos) << config.status().message();
  EXPECT_NE(config.status().message().find("m/config.json"), std::string::npos);
}

TEST(FlattenConfig, NestedObjectsBecomeDottedKeys) {
  const Metadata m = Flatten(
      R"({"a":1,"rope":{"full":{"factor":2.5},"kind":"yarn"},"none":null,"empty":{},"yes":true})");
  EXPECT_EQ(*m.GetInt("a"), 1);
  EXPECT_EQ(*m.GetDouble("rope.full.factor"), 2.5);
  EXPECT_EQ(*m.GetString("rope.kind"), "yarn");
  EXPECT_EQ(*m.GetBool("yes"), true);
  EXPECT_FALSE(m.Has("none"));
  ASSERT_TRUE(m.Has("empty"));
  EXPECT_EQ(std::get<RawJson>(*m.Find("empty")).text, "{}");
  EXPECT_EQ(m.origin(), "m/config.json");
}

TEST(FlattenConfig, ListsKeepTheirKind) {
  const Metadata m = Flatten(R"({"i":[1,2],"d":[1,2.5],"s":["a"],"b":[true,false],"e":[],)"
                             R"("mixed":[1,"a"],"deep":[[1],{"k":Infinity}]})");
  EXPECT_EQ(*m.GetInts("i"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*m.GetDoubles("d"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(*m.GetStrings("s"), std::vector<std::string>{"a"});
  EXPECT_EQ(*m.GetBools("b"), (std::vector<bool>{true, false}));
  EXPECT_EQ(*m.GetStrings("e"), std::vector<std::string>());
  EXPECT_EQ(std::get<RawJson>(*m.Find("mixed")).text, R"([1,"a"])");
  EXPECT_EQ(std::get<RawJson>(*m.Find("deep")).text, R"([[1],{"k":Infinity}])");
}

TEST(FlattenConfig, PythonsNumbersAreNumbers) {
  const Metadata m = Flatten(R"({"up":Infinity,"down":-Infinity,"nan":NaN,)"
                             R"("limit":[0.0, Infinity],"text":"Infinity and \"NaN"})");
  EXPECT_EQ(*m.GetDouble("up"), HUGE_VAL);
  EXPECT_EQ(*m.GetDouble("down"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(**m.GetDouble("nan")));
  EXPECT_EQ(*m.GetDoubles("limit"), (std::vector<double>{0.0, HUGE_VAL}));
  EXPECT_EQ(*m.GetString("text"), "Infinity and \"NaN");
}

TEST(FlattenConfig, AnIntegerOfAnyLengthReadsAsADecimal) {
  const Metadata m = Flatten(R"({"max":1000000000000000019884624838656})");
  EXPECT_EQ(*m.GetDouble("max"), 1e30);
  EXPECT_EQ(*Flatten(R"({"max":9223372036854775807})").GetInt("max"), INT64_MAX);
}

TEST(FlattenConfig, RefusesAnIntegerBetweenInt64AndUint64) {
  ExpectRefused(R"({"a":9223372036854775808})", StatusCode::kCorruptData, "key a is above 2^63-1");
}

TEST(FlattenConfig, RefusesADuplicateKey) {
  ExpectRefused(R"({"a":1,"a":2})", StatusCode::kCorruptData, "key a stands there twice");
  ExpectRefused(R"({"o":{"a":1},"o":{"b":2}})", StatusCode::kCorruptData, "key o stands");
  ExpectRefused(R"({"o.a":1,"o":{"a":1}})", StatusCode::kCorruptData, "key o.a stands");
}

TEST(FlattenConfig, RefusesWhatIsNoJsonObject) {
  ExpectRefused("", StatusCode::kCorruptData, "JSON");
  ExpectRefused("[1]", StatusCode::kCorruptData, "no JSON object");
  ExpectRefused(R"({"a":)", StatusCode::kCorruptData, "JSON");
  ExpectRefused(R"({"a":"\)", StatusCode::kCorruptData, "JSON");
  ExpectRefused(R"({"a":Infinit})", StatusCode::kCorruptData, "JSON");
  ExpectRefused(R"({"a":-})", StatusCode::kCorruptData, "number");
}

TEST(FlattenConfig, RefusesBadUtf8) {
  ExpectRefused("{\"a\":\"\xff\"}", StatusCode::kCorruptData, "UTF-8");
}

TEST(FlattenConfig, RefusesDeepNesting) {
  std::string json;
  for (int i = 0; i < 100000; ++i) json += R"({"a":)";
  ExpectRefused(json, StatusCode::kCorruptData, "JSON");
  json.clear();
  for (int i = 0; i < 70; ++i) json += R"({"a":)";
  json += "1" + std::string(70, '}');
  ExpectRefused(json, StatusCode::kCorruptData, "deeper than 64");
}

TEST(FlattenConfig, RefusesKeysBeyondTheCaps) {
  ExpectRefused(StrCat(R"({"a":{")", std::string(kMaxConfigKeyBytes, 'k'), R"(":1}})"),
                StatusCode::kResourceExhausted, "longer than 1024");
  std::string json = "{";
  for (size_t i = 0; i <= kMaxConfigKeys; ++i) json += StrCat(i == 0 ? "" : ",", "\"", i, "\":1");
  ExpectRefused(json + "}", StatusCode::kResourceExhausted, "65536 keys");
}

}  // namespace
}  // namespace colibri
