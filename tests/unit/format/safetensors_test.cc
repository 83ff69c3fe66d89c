#include "format/safetensors.h"

#include <gtest/gtest.h>

#include <ctime>

#include "base/strings.h"
#include "platform/file_double.h"

namespace colibri {
namespace {

constexpr char kPath[] = "m/model.safetensors";

std::string WithLength(uint64_t length, std::string_view rest) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i));
  return file.append(rest);
}

std::string File(std::string_view header, std::string_view data) {
  return WithLength(header.size(), StrCat(header, data));
}

Result<std::unique_ptr<TensorSource>> Open(std::string file) {
  // Sources keep views into the disk's files.
  static MemoryFileSystem disk;
  disk.Add(kPath, std::move(file));
  return OpenSafetensorsFile(disk, kPath);
}

// Opens the file, which must be refused with this code and words in its message.
void ExpectRefused(std::string file, StatusCode code, const std::vector<std::string>& words) {
  const auto source = Open(std::move(file));
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.status().code(), code) << source.status().ToString();
  for (const std::string& word : words) {
    EXPECT_NE(source.status().message().find(word), std::string::npos)
        << source.status().message() << " lacks " << word;
  }
  EXPECT_NE(source.status().message().find(kPath), std::string::npos);
}

constexpr char kTwo[] = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                        R"("b":{"dtype":"U8","shape":[2,2],"data_offsets":[8,12]}})";

TEST(Safetensors, ReadsTensorsAndTheirBytes) {
  const auto source = Open(File(kTwo, "AAAABBBBcdef"));
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  ASSERT_EQ((*source)->tensors().size(), 2u);
  const TensorInfo* b = (*source)->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::kU8);
  EXPECT_EQ(b->shape, (std::vector<uint64_t>{2, 2}));
  std::vector<uint8_t> bytes(2);
  ASSERT_TRUE((*source)->Read(*b, 1, bytes).ok());
  EXPECT_EQ(bytes, (std::vector<uint8_t>{'d', 'e'}));
  EXPECT_EQ((*source)->Find("c"), nullptr);
  EXPECT_EQ((*source)->format(), "safetensors");
}

TEST(Safetensors, KnowsEveryTypeOfTheFormat) {
  for (const char* name : {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "I32", "I16",
                           "I8", "U8", "BOOL"}) {
    const auto source = Open(
        File(StrCat(R"({"a":{"dtype":")", name, R"(","shape":[0],"data_offsets":[0,0]}})"), ""));
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    EXPECT_EQ(SafetensorsDTypeName((*source)->tensors()[0].dtype), name);
  }
  EXPECT_EQ(SafetensorsDTypeName(DType::kQ4_K), std::nullopt);
}

TEST(Safetensors, MetadataAndPaddingAreAllowed) {
  const auto source = Open(File(
      R"({"__metadata__":{"format":"pt"},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      "1234"));
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_TRUE((*source)->tensors()[0].shape.empty());
}

TEST(Safetensors, AFileWithoutTensorsIsEmpty) {
  const auto source = Open(File("{}", ""));
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_TRUE((*source)->tensors().empty());
}

TEST(Safetensors, RefusesAHeaderLengthBeyondTheFile) {
  ExpectRefused(WithLength(UINT64_MAX, "{}"), StatusCode::kCorruptData,
                {"18446744073709551615", "offset 0"});
  ExpectRefused(WithLength(3, "{}"), StatusCode::kCorruptData, {"3 bytes", "only 2"});
  ExpectRefused("abc", StatusCode::kCorruptData, {"3 bytes"});
  ExpectRefused("", StatusCode::kCorruptData, {"0 bytes"});
}

TEST(Safetensors, RefusesAHeaderAboveTheCap) {
  ExpectRefused(
      WithLength(kMaxSafetensorsHeaderBytes + 1, std::string(kMaxSafetensorsHeaderBytes + 1, ' ')),
      StatusCode::kResourceExhausted, {"100000001"});
}

TEST(Safetensors, RefusesAHeaderThatIsNoJsonObject) {
  ExpectRefused(File("[]", ""), StatusCode::kCorruptData, {"'{'"});
  ExpectRefused(File("{", ""), StatusCode::kCorruptData, {"JSON"});
  ExpectRefused(File("", ""), StatusCode::kCorruptData, {"'{'"});
  ExpectRefused(File(R"({"a":1})", ""), StatusCode::kCorruptData, {"tensor a", "JSON object"});
}

TEST(Safetensors, RefusesAHeaderThatIsNoUtf8NamingTheOffset) {
  ExpectRefused(File("{\"aaaaaaaaaaaaaaaaaaaaaaaa\xff\":{}}", ""), StatusCode::kCorruptData,
                {"UTF-8", "offset 2"});
}

TEST(Safetensors, RefusesDeepNesting) {
  std::string header = R"({"a":)";
  header += std::string(100000, '[');
  ExpectRefused(File(header, ""), StatusCode::kCorruptData, {"JSON"});
  ExpectRefused(File(R"({"a":)" + std::string(80, '[') + std::string(80, ']') + "}", ""),
                StatusCode::kCorruptData, {"deeper"});
}

TEST(Safetensors, RefusesADuplicateTensor) {
  ExpectRefused(File(R"({"twin":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("twin":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                     "ab"),
                StatusCode::kCorruptData, {"tensor twin", "again"});
}

TEST(Safetensors, RefusesADuplicateField) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "a"),
                StatusCode::kCorruptData, {"tensor a", "dtype", "twice"});
  ExpectRefused(File(R"({"__metadata__":{},"__metadata__":{}})", ""), StatusCode::kCorruptData,
                {"__metadata__", "twice"});
  ExpectRefused(File(R"({"__metadata__":{"k":"1","k":"2"}})", ""), StatusCode::kCorruptData,
                {"key k", "twice"});
  ExpectRefused(File(R"({"__metadata__":{"k":1}})", ""), StatusCode::kCorruptData,
                {"key k", "no string"});
}

TEST(Safetensors, RefusesAMissingOrUnknownField) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[0]}})", ""), StatusCode::kCorruptData,
                {"tensor a", "data_offsets"});
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"strides":[1]}})", ""),
                StatusCode::kCorruptData, {"tensor a", "strides"});
}

TEST(Safetensors, RefusesAnUnknownType) {
  ExpectRefused(File(R"({"odd":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "a"),
                StatusCode::kUnsupported, {"tensor odd", "F4", "BF16"});
}

TEST(Safetensors, RefusesTwoTensorsOnOneRange) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                     R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                     "abcd"),
                StatusCode::kCorruptData, {"tensor b", "overlap"});
}

TEST(Safetensors, RefusesAGap) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                     "abc"),
                StatusCode::kCorruptData, {"tensor b", "gap"});
  ExpectRefused(File(kTwo, "AAAABBBBcdef+"), StatusCode::kCorruptData, {"the tensors end"});
}

TEST(Safetensors, RefusesAFileCutByOneByte) {
  ExpectRefused(File(kTwo, "AAAABBBBcde"), StatusCode::kCorruptData,
                {"tensor b", "[8, 12]", "11 bytes", "cut short"});
}

TEST(Safetensors, RefusesOffsetsOutOfOrder) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "ab"),
                StatusCode::kCorruptData, {"tensor a", "[1, 0]"});
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "ab"),
                StatusCode::kCorruptData, {"tensor a", "two offsets"});
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", "ab"),
                StatusCode::kCorruptData, {"tensor a", "two offsets"});
}

TEST(Safetensors, RefusesASizeThatIsNotThatOfItsShape) {
  ExpectRefused(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"),
                StatusCode::kCorruptData, {"tensor a", "[2]", "8 bytes", "give 4"});
}

TEST(Safetensors, RefusesAShapeWhoseProductOverflows) {
  ExpectRefused(
      File(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
      StatusCode::kCorruptData, {"tensor a", "64 bits"});
  ExpectRefused(
      File(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", ""),
      StatusCode::kCorruptData, {"tensor a", "64 bits"});
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", ""),
                StatusCode::kCorruptData, {"tensor a", "shape"});
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],)"
                     R"("data_offsets":[0,1]}})",
                     "a"),
                StatusCode::kCorruptData, {"tensor a", "16 dimensions"});
}

TEST(Safetensors, AFailedReadNamesTensorFileAndOffset) {
  MemoryFileSystem disk;
  disk.Add(kPath, File(kTwo, "AAAABBBBcdef"));
  disk.Break(kPath, {.fail_at_read = 3});
  const auto source = OpenSafetensorsFile(disk, kPath);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  std::vector<uint8_t> bytes(4);
  const TensorInfo& b = *(*source)->Find("b");
  const Status status = (*source)->Read(b, 0, bytes);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  for (const std::string& word : {std::string("tensor b"), std::string(kPath),
                                  StrCat("offset ", b.offset), std::string("errno 5")}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
  EXPECT_TRUE((*source)->Read(b, 0, bytes).ok());
}

TEST(Safetensors, AFailedHeaderReadIsAnIoError) {
  for (const uint64_t read : {1, 2}) {
    MemoryFileSystem disk;
    disk.Add(kPath, File(kTwo, "AAAABBBBcdef"));
    disk.Break(kPath, {.fail_at_read = read});
    EXPECT_EQ(OpenSafetensorsFile(disk, kPath).status().code(), StatusCode::kIoError);
  }
}

TEST(Safetensors, LoadsAHundredThousandTensorsWithinASecond) {
  std::string header = "{";
  constexpr int kTensors = 100000;
  for (int i = 0; i < kTensors; ++i) {
    header += StrCat(i == 0 ? "" : ",", "\"model.layers.", i / 100, ".mlp.experts.", i % 100,
                     ".weight\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[", i, ",",
                     i + 1, "]}");
  }
  header += "}";
  std::string file = File(header, std::string(kTensors, 'x'));
  const std::clock_t begin = std::clock();
  const auto source = Open(std::move(file));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->tensors().size(), 100000u);
  // Of this thread's own time, so that a busy machine does not count.
  EXPECT_LT(seconds, 1.0);
}

// ---- Folders ----

std::string Shard(const std::vector<std::string>& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += StrCat(i == 0 ? "" : ",", "\"", names[i],
                     "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[", i, ",", i + 1, "]}");
  }
  return File(header + "}", std::string(names.size(), 'x'));
}

std::string ShardFile(int i) {
  return StrCat("m/model-0000", i, "-of-00005.safetensors");
}

// Five shards with two tensors each.
MemoryFileSystem FiveShards() {
  MemoryFileSystem disk;
  std::string map;
  for (int i = 1; i <= 5; ++i) {
    disk.Add(ShardFile(i), Shard({StrCat("a", i), StrCat("b", i)}));
    for (const char* name : {"a", "b"}) {
      map += StrCat(map.empty() ? "" : ",", "\"", name, i, "\":\"", ShardFile(i).substr(2), "\"");
    }
  }
  disk.Add("m/model.safetensors.index.json",
           StrCat(R"({"metadata":{"total_size":10},"weight_map":{)", map, "}}"));
  return disk;
}

void ExpectFolderRefused(const MemoryFileSystem& disk, StatusCode code,
                         const std::vector<std::string>& words) {
  const auto source = OpenSafetensorsFolder(disk, "m", Log());
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.status().code(), code) << source.status().ToString();
  for (const std::string& word : words) {
    EXPECT_NE(source.status().message().find(word), std::string::npos)
        << source.status().message() << " lacks " << word;
  }
}

TEST(SafetensorsFolder, ReadsAllShardsOfAnIndex) {
  const MemoryFileSystem disk = FiveShards();
  const auto source = OpenSafetensorsFolder(disk, "m", Log());
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->tensors().size(), 10u);
  EXPECT_EQ((*source)->files().size(), 5u);
  const TensorInfo* tensor = (*source)->Find("b4");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ((*source)->files()[tensor->file], ShardFile(4));
}

TEST(SafetensorsFolder, RefusesAMissingShardAtOpen) {
  MemoryFileSystem disk = FiveShards();
  disk.Remove(ShardFile(3));
  ExpectFolderRefused(disk, StatusCode::kNotFound, {"model-00003-of-00005", "missing"});
}

TEST(SafetensorsFolder, RefusesAShardCutByOneByteAtOpen) {
  MemoryFileSystem disk = FiveShards();
  std::string bytes = Shard({"a4", "b4"});
  bytes.pop_back();
  disk.Add(ShardFile(4), bytes);
  ExpectFolderRefused(disk, StatusCode::kCorruptData, {ShardFile(4), "tensor b4", "cut short"});
}

TEST(SafetensorsFolder, RefusesATensorInTheWrongShard) {
  MemoryFileSystem disk = FiveShards();
  disk.Add(ShardFile(1), Shard({"a1", "a2"}));
  disk.Add(ShardFile(2), Shard({"b1", "b2"}));
  ExpectFolderRefused(disk, StatusCode::kCorruptData, {"tensor a2", "should be in", "lies in"});
}

TEST(SafetensorsFolder, RefusesATensorThatNoShardHas) {
  MemoryFileSystem disk = FiveShards();
  disk.Add(ShardFile(1), Shard({"a1"}));
  ExpectFolderRefused(disk, StatusCode::kCorruptData, {"tensor b1", "no shard has it"});
}

TEST(SafetensorsFolder, RefusesATensorThatTheIndexDoesNotKnow) {
  MemoryFileSystem disk = FiveShards();
  disk.Add(ShardFile(1), Shard({"a1", "b1", "c1"}));
  ExpectFolderRefused(disk, StatusCode::kCorruptData, {"tensor c1", "does not list"});
}

TEST(SafetensorsFolder, RefusesATensorInTwoShards) {
  MemoryFileSystem disk = FiveShards();
  disk.Add(ShardFile(1), Shard({"a1", "b1", "a2"}));
  ExpectFolderRefused(disk, StatusCode::kCorruptData, {"tensor a2", "again"});
}

TEST(SafetensorsFolder, RefusesABrokenIndex) {
  const auto with_index = [](std::string_view index) {
    MemoryFileSystem disk = FiveShards();
    disk.Add("m/model.safetensors.index.json", std::string(index));
    return disk;
  };
  ExpectFolderRefused(with_index("{}"), StatusCode::kCorruptData, {"weight_map"});
  ExpectFolderRefused(with_index("["), StatusCode::kCorruptData, {"JSON"});
  ExpectFolderRefused(with_index(R"({"weight_map":{}})"), StatusCode::kCorruptData, {"empty"});
  ExpectFolderRefused(with_index(R"({"weight_map":{"a":1}})"), StatusCode::kCorruptData,
                      {"key a", "file name"});
  ExpectFolderRefused(with_index(R"({"weight_map":{"a":"../x.safetensors"}})"),
                      StatusCode::kCorruptData, {"key a", "same folder"});
  ExpectFolderRefused(with_index(R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})"),
                      StatusCode::kCorruptData, {"key a", "twice"});
}

TEST(SafetensorsFolder, WithoutAnIndexDisjointFilesAreOneModel) {
  MemoryFileSystem disk;
  disk.Add("m/one.safetensors", Shard({"a", "b"}));
  disk.Add("m/two.safetensors", Shard({"c"}));
  const auto source = OpenSafetensorsFolder(disk, "m", Log());
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->tensors().size(), 3u);
  disk.Add("m/two.safetensors", Shard({"c", "b"}));
  ExpectFolderRefused(disk, StatusCode::kCorruptData, {"tensor b", "again"});
}

TEST(SafetensorsFolder, WithoutAnIndexNumberedFilesMustAllBeThere) {
  MemoryFileSystem disk = FiveShards();
  disk.Remove("m/model.safetensors.index.json");
  ASSERT_TRUE(OpenSafetensorsFolder(disk, "m", Log()).ok());
  disk.Remove(ShardFile(5));
  ExpectFolderRefused(disk, StatusCode::kNotFound, {"model-00005-of-00005", "missing"});
}

TEST(SafetensorsFolder, ASingleModelFileComesFirstAndTheRestIsSaid) {
  MemoryFileSystem disk = FiveShards();
  disk.Add(kPath, Shard({"whole"}));
  std::vector<std::string> lines;
  const Log log([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const auto source = OpenSafetensorsFolder(disk, "m", log);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->tensors().size(), 1u);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("not used"), std::string::npos) << lines[0];
}

TEST(SafetensorsFolder, AFolderWithoutWeightsIsNotFound) {
  MemoryFileSystem disk;
  disk.Add("m/readme", "");
  ExpectFolderRefused(disk, StatusCode::kNotFound, {"no .safetensors"});
}

}  // namespace
}  // namespace colibri
