#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "cli/measure.h"
#include "cli/safetensors_file.h"
#include "support/assets.h"

namespace colibri::cli {
namespace {

namespace fs = std::filesystem;

std::string TempPath(const std::string& name) {
  return (fs::path(::testing::TempDir()) / name).string();
}

TEST(AppendJsonString, IsReadBackAsItWas) {
  std::string text = "quote \" backslash \\ slash / snowman \u2603 bird \U0001F426";
  for (int c = 0; c < 0x80; ++c) text += static_cast<char>(c);
  std::string json;
  AppendJsonString(json, text);
  EXPECT_EQ(nlohmann::json::parse(json).get<std::string>(), text);
}

TEST(AppendJsonIds, IsAnArrayOfNumbers) {
  std::string json;
  AppendJsonIds(json, std::vector<int32_t>{3, 0, 151935});
  EXPECT_EQ(nlohmann::json::parse(json), (nlohmann::json{3, 0, 151935}));
  json.clear();
  AppendJsonIds(json, {});
  EXPECT_EQ(json, "[]");
}

TEST(SpreadOf, TakesTheMiddle) {
  EXPECT_EQ(SpreadOf({3, 1, 2}).median, 2);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).min, 1);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).max, 4);
}

TEST(PeakResidentBytes, SeesMemoryThatWasTouched) {
  const uint64_t before = PeakResidentBytes();
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> memory(kBytes);
  // Volatile: a compiler may leave out memory that nobody looks at.
  for (size_t i = 0; i < kBytes; i += 1024) *static_cast<volatile char*>(&memory[i]) = 1;
  EXPECT_GE(PeakResidentBytes(), before + kBytes / 2);
}

TEST(SafetensorsFile, HoldsWhatWasWrittenInPieces) {
  const std::string path = TempPath("pieces.safetensors");
  Result<SafetensorsFile> file =
      SafetensorsFile::Create(path, {{"a", "F32", {2, 3}, 4}, {"b", "I64", {2}, 8}});
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const std::vector<int64_t> b = {7, -1};
  const std::vector<float> row0 = {0, 1, 2};
  const std::vector<float> row1 = {3, 4, 5};
  ASSERT_TRUE(file->WriteValues(1, 0, std::span(b)).ok());
  ASSERT_TRUE(file->WriteValues(0, 3, std::span(row1)).ok());
  ASSERT_TRUE(file->WriteValues(0, 0, std::span(row0)).ok());
  ASSERT_TRUE(file->Close().ok());

  const std::string bytes = testing::ReadFile(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ((8 + length) % 8, 0u);
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header["a"]["shape"], (nlohmann::json{2, 3}));
  EXPECT_EQ(header["b"]["data_offsets"], (nlohmann::json{24, 40}));
  ASSERT_EQ(bytes.size(), 8 + length + 40);
  std::vector<float> a(6);
  std::memcpy(a.data(), bytes.data() + 8 + length, 24);
  EXPECT_EQ(a, (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(SafetensorsFile, LeavesNothingBehindUnlessItIsClosed) {
  const std::string path = TempPath("half.safetensors");
  {
    const Result<SafetensorsFile> file = SafetensorsFile::Create(path, {{"a", "F32", {2}, 4}});
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(SafetensorsFile, RefusesSizesThatOverflow) {
  const Result<SafetensorsFile> file = SafetensorsFile::Create(
      TempPath("huge.safetensors"), {{"a", "F32", {uint64_t{1} << 40, uint64_t{1} << 40}, 4}});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(file.status().message().find("tensor a"), std::string::npos);
}

TEST(SafetensorsFile, NamesThePathThatCannotBeMade) {
  const Result<SafetensorsFile> file = SafetensorsFile::Create("/no/such/folder/x", {});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kIoError);
  EXPECT_NE(file.status().message().find("/no/such/folder/x"), std::string::npos);
}

}  // namespace
}  // namespace colibri::cli
