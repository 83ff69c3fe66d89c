#include "platform/file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "platform/file_double.h"
#include "support/assets.h"

namespace colibri {
namespace {

std::span<uint8_t> BytesOf(std::string& text) {
  return {reinterpret_cast<uint8_t*>(text.data()), text.size()};
}

std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "colibri_file_test_" + name;
}

std::unique_ptr<RandomAccessFile> Faulty(std::string_view bytes, FaultPlan plan) {
  return std::make_unique<FaultInjectingFile>(std::make_unique<MemoryFile>("disk/a", bytes), plan);
}

TEST(File, ReadsAnyRange) {
  const std::string path = TempPath("range");
  std::ofstream(path) << "0123456789";
  auto file = OpenFile(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ((*file)->size(), 10u);
  EXPECT_GE((*file)->descriptor(), 0);
  std::string out(4, ' ');
  ASSERT_TRUE((*file)->ReadAt(6, BytesOf(out)).ok());
  EXPECT_EQ(out, "6789");
  EXPECT_TRUE((*file)->ReadAt(10, {}).ok());
}

TEST(File, ARangeBeyondTheEndIsAnErrorWithBothNumbers) {
  MemoryFile file("disk/a", "0123456789");
  std::string out(4, ' ');
  const Status status = file.ReadAt(7, BytesOf(out));
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("offset 7"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("10 bytes"), std::string::npos) << status.message();
  EXPECT_FALSE(file.ReadAt(UINT64_MAX, BytesOf(out)).ok());
}

TEST(File, AMissingFileIsNotFound) {
  const auto file = OpenFile(TempPath("does_not_exist"));
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_NE(file.status().message().find("does_not_exist"), std::string::npos);
}

TEST(File, AFolderIsNoFile) {
  EXPECT_EQ(OpenFile(::testing::TempDir()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(LocalFileSystem().GetKind(::testing::TempDir()), FileSystem::Kind::kFolder);
}

TEST(File, ShortAndInterruptedReadsAreRepeated) {
  const auto file = Faulty("0123456789", {.interrupt_every = 2, .max_read_bytes = 3});
  std::string out(10, ' ');
  ASSERT_TRUE(file->ReadAt(0, BytesOf(out)).ok());
  EXPECT_EQ(out, "0123456789");
}

TEST(File, AFailedReadNamesFileOffsetAndReason) {
  const auto file = Faulty("0123456789", {.fail_at_read = 3, .error = EIO, .max_read_bytes = 2});
  std::string out(8, ' ');
  const Status status = file->ReadAt(1, BytesOf(out));
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("disk/a"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("offset 5"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("Input/output error"), std::string::npos) << status.message();
  // Only that read failed.
  EXPECT_TRUE(file->ReadAt(1, BytesOf(out)).ok());
}

TEST(File, AFileThatShrankIsAnErrorNotALoop) {
  const auto file = Faulty("0123456789", {.end_at = 4});
  std::string out(8, ' ');
  const Status status = file->ReadAt(0, BytesOf(out));
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("ended at offset 4"), std::string::npos) << status.message();
}

TEST(File, WritingReplacesTheWholeFile) {
  const std::string path = TempPath("write");
  std::ofstream(path) << "something much longer than the new text";
  const std::string a = "new ";
  const std::string b = "text";
  const auto bytes = [](const std::string& s) {
    return std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(s.data()), s.size());
  };
  ASSERT_TRUE(WriteFileAtomically(path, {bytes(a), bytes(b)}).ok());
  EXPECT_EQ(testing::ReadFile(path), "new text");
}

TEST(File, AFailedWriteLeavesNothingBehind) {
  const std::string folder = TempPath("no_such_folder");
  const Status status = WriteFileAtomically(folder + "/x", {});
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("no_such_folder"), std::string::npos) << status.message();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(File, AWholeFileIsReadUpToItsCap) {
  MemoryFileSystem disk;
  disk.Add("d/a", "12345");
  EXPECT_EQ(*ReadWholeFile(disk, "d/a", 5), "12345");
  EXPECT_EQ(ReadWholeFile(disk, "d/a", 4).status().code(), StatusCode::kResourceExhausted);
}

TEST(MemoryFileSystem, ListsAFolderLikeADisk) {
  MemoryFileSystem disk;
  disk.Add("d/b", "");
  disk.Add("d/a", "");
  disk.Add("d/e/c", "");
  EXPECT_EQ(*disk.ListFiles("d"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(disk.GetKind("d"), FileSystem::Kind::kFolder);
  EXPECT_EQ(disk.GetKind("d/a"), FileSystem::Kind::kFile);
  EXPECT_EQ(disk.GetKind("x"), FileSystem::Kind::kMissing);
}

}  // namespace
}  // namespace colibri
