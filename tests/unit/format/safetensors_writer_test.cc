#include "format/safetensors_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "format/safetensors.h"
#include "support/assets.h"

namespace colibri {
namespace {

std::string TempPath() {
  return ::testing::TempDir() + "colibri_writer_test.safetensors";
}

const std::vector<float> kFloats = {1.5f, -2.0f};
const std::vector<int64_t> kInts = {7};
const std::vector<uint8_t> kBytes = {1, 2, 3};

std::vector<TensorToWrite> Sample() {
  return {{"bytes", DType::kU8, {3}, kBytes},
          {"quote\" and \n", DType::kF32, {1, 2}, AsBytes<float>(kFloats)},
          {"scalar", DType::kI64, {}, AsBytes<int64_t>(kInts)},
          {"none", DType::kF32, {0, 4}, {}}};
}

TEST(WriteSafetensors, WhatItWritesReadsBack) {
  ASSERT_TRUE(WriteSafetensors(TempPath(), Sample(), {{"made \"by\"", "a\ttest"}}).ok());
  const auto source = OpenSafetensorsFile(LocalFileSystem(), TempPath());
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  ASSERT_EQ((*source)->tensors().size(), 4u);
  for (const TensorToWrite& written : Sample()) {
    const TensorInfo* tensor = (*source)->Find(written.name);
    ASSERT_NE(tensor, nullptr) << written.name;
    EXPECT_EQ(tensor->dtype, written.dtype);
    EXPECT_EQ(tensor->shape, written.shape);
    EXPECT_EQ(tensor->offset % GetDTypeInfo(written.dtype).block_bytes, 0u) << written.name;
    std::vector<uint8_t> bytes(tensor->n_bytes);
    ASSERT_TRUE((*source)->Read(*tensor, 0, bytes).ok());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), written.data.begin(), written.data.end()));
  }
}

TEST(WriteSafetensors, AFileWithoutTensorsReadsBack) {
  ASSERT_TRUE(WriteSafetensors(TempPath(), {}).ok());
  const auto source = OpenSafetensorsFile(LocalFileSystem(), TempPath());
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_TRUE((*source)->tensors().empty());
}

TEST(WriteSafetensors, RefusesWhatNoReaderWouldTake) {
  const std::vector<std::pair<TensorToWrite, std::string>> wrong = {
      {{"a", DType::kF32, {3}, AsBytes<float>(kFloats)}, "8 bytes"},
      {{"a", DType::kQ8_0, {32}, kBytes}, "q8_0"},
      {{"__metadata__", DType::kU8, {3}, kBytes}, "reserved"},
      {{"\xff", DType::kU8, {3}, kBytes}, "UTF-8"},
      {{"bytes", DType::kU8, {3}, kBytes}, "twice"},
      {{"a", DType::kU8, {uint64_t{1} << 32, uint64_t{1} << 32}, {}}, "not the size"}};
  for (const auto& [tensor, word] : wrong) {
    std::vector<TensorToWrite> tensors = Sample();
    tensors.push_back(tensor);
    const Status status = WriteSafetensors(TempPath(), tensors);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << word;
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

TEST(WriteSafetensors, AFailureLeavesTheOldFile) {
  ASSERT_TRUE(WriteSafetensors(TempPath(), Sample()).ok());
  const std::string before = testing::ReadFile(TempPath());
  EXPECT_FALSE(WriteSafetensors(TempPath(), {{"a", DType::kF32, {1}, kBytes}}).ok());
  EXPECT_EQ(testing::ReadFile(TempPath()), before);
  EXPECT_EQ(WriteSafetensors(::testing::TempDir() + "no_folder/x", {}).code(),
            StatusCode::kIoError);
}

}  // namespace
}  // namespace colibri
