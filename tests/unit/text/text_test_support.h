// unit/text/text_test_support.h - tokenizers and JSON lines for the tests of text.
#pragma once

#include <gtest/gtest.h>
#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/assets.h"
#include "text/tokenizer.h"

namespace colibri::testing {

// The tokenizer of a folder of the assets, with its tokenizer_config.json.
inline std::unique_ptr<Tokenizer> LoadAsset(const std::string& folder) {
  const std::string dir = AssetsDir() + "/" + folder;
  Result<std::unique_ptr<Tokenizer>> tokenizer =
      LoadTokenizerJson(ReadFile(dir + "/tokenizer.json"), ReadFile(dir + "/tokenizer_config.json"),
                        dir + "/tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

inline std::unique_ptr<Tokenizer> LoadJson(std::string_view json, std::string_view config = {}) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizerJson(json, config, "test.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

inline std::vector<int32_t> Ids(simdjson::dom::element element) {
  std::vector<int32_t> ids;
  for (const int64_t id : element.get_array()) ids.push_back(static_cast<int32_t>(id));
  return ids;
}

inline std::vector<int32_t> EncodeOk(const Tokenizer& tokenizer, std::string_view text,
                                     const EncodeOptions& options = {}) {
  Result<std::vector<int32_t>> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  return ids.ok() ? std::move(ids).value() : std::vector<int32_t>();
}

}  // namespace colibri::testing
