#include "format/gguf.h"

#include <gtest/gtest.h>

#include <ctime>

#include "base/strings.h"
#include "platform/file_double.h"
#include "support/gguf_builder.h"

namespace colibri {
namespace {

using testing::ByteWriter;
using testing::GgufBuilder;

constexpr char kPath[] = "m/model.gguf";
constexpr uint32_t kF32Id = 0;
constexpr uint32_t kQ8_0Id = 8;

// A model whose source stays valid as long as this.
struct Opened {
  explicit Opened(std::string file)
      : model([&] {
          disk.Add(kPath, std::move(file));
          return OpenGguf(disk, kPath);
        }()) {}
  MemoryFileSystem disk;
  Result<GgufModel> model;
};

void ExpectRefused(std::string file, StatusCode code, const std::vector<std::string>& words) {
  const Opened opened(std::move(file));
  ASSERT_FALSE(opened.model.ok());
  const Status& status = opened.model.status();
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_NE(status.message().find(kPath), std::string::npos) << status.message();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << status.message() << " lacks " << word;
  }
}

GgufBuilder Small() {
  GgufBuilder builder;
  builder.TextKey("general.architecture", "test");
  builder.Add("a", {2, 3}, kF32Id, std::string(24, 'A'));
  builder.Add("b", {32}, kQ8_0Id, std::string(34, 'B'));
  return builder;
}

TEST(Gguf, ReadsTensorsInRowMajorOrder) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder builder = Small();
    builder.version = version;
    const Opened opened(builder.Build());
    ASSERT_TRUE(opened.model.ok()) << opened.model.status().ToString();
    const TensorSource& source = *opened.model->tensors;
    EXPECT_EQ(source.format(), StrCat("gguf v", version));
    const TensorInfo* a = source.Find("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->shape, (std::vector<uint64_t>{3, 2}));
    const TensorInfo* b = source.Find("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->dtype, DType::kQ8_0);
    EXPECT_EQ(b->n_bytes, 34u);
    std::vector<uint8_t> bytes(34);
    ASSERT_TRUE(source.Read(*b, 0, bytes).ok());
    EXPECT_EQ(bytes, std::vector<uint8_t>(34, 'B'));
  }
}

TEST(Gguf, KnowsEveryStoredType) {
  const std::pair<uint32_t, DType> types[] = {
      {0, DType::kF32},      {1, DType::kF16},     {2, DType::kQ4_0},     {3, DType::kQ4_1},
      {6, DType::kQ5_0},     {7, DType::kQ5_1},    {8, DType::kQ8_0},     {10, DType::kQ2_K},
      {11, DType::kQ3_K},    {12, DType::kQ4_K},   {13, DType::kQ5_K},    {14, DType::kQ6_K},
      {16, DType::kIQ2_XXS}, {17, DType::kIQ2_XS}, {18, DType::kIQ3_XXS}, {19, DType::kIQ1_S},
      {20, DType::kIQ4_NL},  {21, DType::kIQ3_S},  {22, DType::kIQ2_S},   {23, DType::kIQ4_XS},
      {24, DType::kI8},      {25, DType::kI16},    {26, DType::kI32},     {27, DType::kI64},
      {28, DType::kF64},     {29, DType::kIQ1_M},  {30, DType::kBF16},    {34, DType::kTQ1_0},
      {35, DType::kTQ2_0},   {39, DType::kMXFP4},  {40, DType::kNVFP4}};
  for (const auto& [id, dtype] : types) {
    GgufBuilder builder;
    builder.Add("t", {256}, id, std::string(*DTypeBytes(dtype, 256), 'x'));
    const Opened opened(builder.Build());
    ASSERT_TRUE(opened.model.ok()) << opened.model.status().ToString();
    EXPECT_EQ(opened.model->tensors->tensors()[0].dtype, dtype);
  }
}

TEST(Gguf, ReadsEveryKindOfValue) {
  GgufBuilder builder;
  builder.Key<uint8_t>("u8", 0, 200).Key<int8_t>("i8", 1, -3).Key<uint16_t>("u16", 2, 65000);
  builder.Key<int16_t>("i16", 3, -300).Key<uint32_t>("u32", 4, 4000000000u);
  builder.Key<int32_t>("i32", 5, -5).Key<float>("f32", 6, 0.5f).Key<uint8_t>("yes", 7, 1);
  builder.TextKey("text", "hello").Key<uint64_t>("u64", 10, INT64_MAX);
  builder.Key<int64_t>("i64", 11, INT64_MIN).Key<double>("f64", 12, 1e-9);
  builder.ListKey("ints", 5, 2, ByteWriter().Number<int32_t>(7).Number<int32_t>(-8).bytes());
  builder.ListKey("floats", 6, 1, ByteWriter().Number(1.5f).bytes());
  builder.ListKey("flags", 7, 2, std::string("\1\0", 2));
  builder.ListKey("texts", 8, 2, ByteWriter().String("x").String("").bytes());
  builder.ListKey("none", 8, 0, "");
  const std::string inner = ByteWriter()
                                .Number<uint32_t>(8)
                                .Number<uint64_t>(1)
                                .String("q\"\n")
                                .Number<uint32_t>(5)
                                .Number<uint64_t>(2)
                                .Number<int32_t>(1)
                                .Number<int32_t>(2)
                                .bytes();
  builder.ListKey("nested", 9, 2, inner);
  const Opened opened(builder.Build());
  ASSERT_TRUE(opened.model.ok()) << opened.model.status().ToString();
  const Metadata& m = opened.model->metadata;
  EXPECT_EQ(*m.GetInt("u8"), 200);
  EXPECT_EQ(*m.GetInt("i8"), -3);
  EXPECT_EQ(*m.GetInt("u16"), 65000);
  EXPECT_EQ(*m.GetInt("i16"), -300);
  EXPECT_EQ(*m.GetInt("u32"), 4000000000);
  EXPECT_EQ(*m.GetInt("i32"), -5);
  EXPECT_EQ(*m.GetDouble("f32"), 0.5);
  EXPECT_EQ(*m.GetBool("yes"), true);
  EXPECT_EQ(*m.GetString("text"), "hello");
  EXPECT_EQ(*m.GetInt("u64"), INT64_MAX);
  EXPECT_EQ(*m.GetInt("i64"), INT64_MIN);
  EXPECT_EQ(*m.GetDouble("f64"), 1e-9);
  EXPECT_EQ(*m.GetInts("ints"), (std::vector<int64_t>{7, -8}));
  EXPECT_EQ(*m.GetDoubles("floats"), std::vector<double>{1.5});
  EXPECT_EQ(*m.GetBools("flags"), (std::vector<bool>{true, false}));
  EXPECT_EQ(*m.GetStrings("texts"), (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(*m.GetStrings("none"), std::vector<std::string>());
  const auto* nested = std::get_if<RawJson>(m.Find("nested"));
  ASSERT_NE(nested, nullptr);
  EXPECT_EQ(nested->text, R"([["q\"\u000a"],[1,2]])");
}

TEST(Gguf, FollowsTheAlignmentKey) {
  for (const uint64_t alignment : {8, 64, 4096}) {
    GgufBuilder builder = Small();
    builder.alignment = alignment;
    builder.tensors.clear();
    builder.Key<uint32_t>("general.alignment", 4, static_cast<uint32_t>(alignment));
    builder.Add("a", {1}, kF32Id, "aaaa").Add("b", {1}, kF32Id, "bbbb");
    const Opened opened(builder.Build());
    ASSERT_TRUE(opened.model.ok()) << opened.model.status().ToString();
    const TensorInfo& b = *opened.model->tensors->Find("b");
    EXPECT_EQ(b.offset % alignment, 0u);
    std::vector<uint8_t> bytes(4);
    ASSERT_TRUE(opened.model->tensors->Read(b, 0, bytes).ok());
    EXPECT_EQ(bytes, std::vector<uint8_t>(4, 'b'));
  }
}

TEST(Gguf, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 31}) {
    GgufBuilder builder = Small();
    builder.Key<uint32_t>("general.alignment", 4, alignment);
    ExpectRefused(builder.Build(), StatusCode::kCorruptData,
                  {"general.alignment", StrCat(alignment), "power of two"});
  }
}

TEST(Gguf, RefusesOtherVersionsAndBigEndian) {
  GgufBuilder builder = Small();
  builder.version = 1;
  ExpectRefused(builder.Build(), StatusCode::kUnsupported, {"version 1", "2 and 3"});
  builder.version = 4;
  ExpectRefused(builder.Build(), StatusCode::kUnsupported, {"version 4"});
  builder.version = 3u << 24;
  ExpectRefused(builder.Build(), StatusCode::kUnsupported, {"big-endian"});
  ExpectRefused("GGML....", StatusCode::kCorruptData, {"GGUF"});
  ExpectRefused("", StatusCode::kCorruptData, {"GGUF"});
}

TEST(Gguf, RefusesCountsThatTheFileCannotHold) {
  GgufBuilder builder = Small();
  builder.n_tensors_written = uint64_t{1} << 63;
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"9223372036854775808 tensors"});
  builder.n_tensors_written = 0;
  builder.n_keys_written = UINT64_MAX;
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"18446744073709551615 metadata keys"});
}

TEST(Gguf, RefusesCountsAboveTheCaps) {
  GgufBuilder builder;
  builder.n_keys_written = kMaxGgufKeys + 1;
  std::string file = builder.Build();
  file.resize(file.size() + 16 * kMaxGgufKeys);
  ExpectRefused(file, StatusCode::kResourceExhausted, {"65537 metadata keys"});
}

TEST(Gguf, RefusesNineDimensions) {
  GgufBuilder builder = Small();
  builder.tensors[0].dims.assign(9, 1);
  ExpectRefused(builder.Build(), StatusCode::kCorruptData,
                {"tensor a", "9 dimensions", "allows 4"});
}

TEST(Gguf, RefusesAStringLongerThanTheFile) {
  GgufBuilder builder = Small();
  builder.keys.push_back(ByteWriter().Number<uint64_t>(UINT64_MAX).Raw("key").bytes());
  ExpectRefused(builder.Build(), StatusCode::kCorruptData,
                {"18446744073709551615 bytes", "offset"});
  builder = Small();
  builder.keys.push_back(
      ByteWriter().String("k").Number<uint32_t>(8).Number<uint64_t>(UINT64_MAX).bytes());
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"key k", "18446744073709551615"});
}

TEST(Gguf, RefusesListsLongerThanTheFile) {
  for (const uint32_t type : {0u, 5u, 8u, 9u, 10u}) {
    GgufBuilder builder = Small();
    builder.ListKey("k", type, UINT64_MAX, "");
    ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"key k", "18446744073709551615"});
  }
}

TEST(Gguf, RefusesListsAboveTheCap) {
  GgufBuilder builder;
  builder.ListKey("k", 0, kMaxGgufArrayElements + 1, std::string(kMaxGgufArrayElements + 1, 'x'));
  ExpectRefused(builder.Build(), StatusCode::kResourceExhausted, {"key k", "16777217"});
}

TEST(Gguf, RefusesListsNestedTooDeep) {
  std::string value;
  for (int depth = 0; depth < 100000; ++depth) {
    value += ByteWriter().Number<uint32_t>(9).Number<uint64_t>(1).bytes();
  }
  GgufBuilder builder;
  builder.keys.push_back(ByteWriter().String("deep").Number<uint32_t>(9).Raw(value).bytes());
  ExpectRefused(builder.Build(), StatusCode::kResourceExhausted, {"key deep", "4 levels"});
}

TEST(Gguf, RefusesUnknownValueTypes) {
  GgufBuilder builder = Small();
  builder.Key<uint32_t>("k", 13, 0);
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"key k", "type 13"});
  builder = Small();
  builder.ListKey("k", 99, 1, "x");
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"key k", "type 99"});
}

TEST(Gguf, RefusesABooleanThatIsNeither) {
  GgufBuilder builder = Small();
  builder.Key<uint8_t>("k", 7, 2);
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"key k", "2"});
}

TEST(Gguf, RefusesAnIntegerAboveTheLargestRead) {
  GgufBuilder builder = Small();
  builder.Key<uint64_t>("k", 10, UINT64_MAX);
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"key k", "18446744073709551615"});
}

TEST(Gguf, RefusesADuplicateKey) {
  GgufBuilder builder = Small();
  builder.TextKey("twin", "1").TextKey("twin", "2");
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"key twin", "twice"});
}

TEST(Gguf, RefusesADuplicateTensor) {
  GgufBuilder builder = Small();
  builder.Add("a", {1}, kF32Id, "xxxx");
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor a", "again"});
}

TEST(Gguf, RefusesTypesThatAreUnknownOrWereRemoved) {
  GgufBuilder builder = Small();
  builder.tensors[0].type = 4;
  ExpectRefused(builder.Build(), StatusCode::kUnsupported, {"tensor a", "Q4_2", "removed"});
  builder.tensors[0].type = 31;
  ExpectRefused(builder.Build(), StatusCode::kUnsupported, {"tensor a", "Q4_0_4_4", "removed"});
  builder.tensors[0].type = 15;
  ExpectRefused(builder.Build(), StatusCode::kUnsupported, {"tensor a", "Q8_K"});
  builder.tensors[0].type = 1000;
  ExpectRefused(builder.Build(), StatusCode::kUnsupported, {"tensor a", "1000", "unknown"});
}

TEST(Gguf, RefusesRowsThatAreNoWholeBlocks) {
  GgufBuilder builder = Small();
  builder.tensors[1].dims = {16, 2};
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor b", "16", "q8_0", "32"});
}

TEST(Gguf, RefusesAShapeWhoseProductOverflows) {
  GgufBuilder builder = Small();
  builder.tensors[0].dims = {uint64_t{1} << 32, uint64_t{1} << 32};
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor a", "64 bits"});
  builder.tensors[0].dims = {uint64_t{1} << 62};
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor a", "64 bits"});
}

TEST(Gguf, RefusesDataBeyondTheEnd) {
  GgufBuilder builder = Small();
  builder.tensors[0].offset = uint64_t{1} << 40;
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor a", "1099511627776", "beyond"});
  builder.tensors[0].offset = UINT64_MAX - 31;
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor a", "beyond"});
}

TEST(Gguf, RefusesAFileCutByOneByte) {
  std::string file = Small().Build();
  file.pop_back();
  ExpectRefused(file, StatusCode::kCorruptData, {"tensor b", "cut short"});
}

// Wherever the file ends, it is refused: no cut reads as a smaller model.
TEST(Gguf, RefusesEveryCut) {
  const std::string file = Small().Build();
  for (size_t n = 0; n < file.size(); ++n) {
    const Opened opened(file.substr(0, n));
    ASSERT_FALSE(opened.model.ok()) << n;
    ASSERT_EQ(opened.model.status().code(), StatusCode::kCorruptData) << n;
  }
}

TEST(Gguf, RefusesAMisalignedOffset) {
  GgufBuilder builder = Small();
  builder.tensors[1].offset += 1;
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor b", "33", "alignment 32"});
}

TEST(Gguf, RefusesOverlappingData) {
  GgufBuilder builder = Small();
  builder.tensors[1].offset = 0;
  ExpectRefused(builder.Build(), StatusCode::kCorruptData, {"tensor b", "overlap", "tensor a"});
}

TEST(Gguf, AFailedHeaderReadIsAnIoErrorWithItsOffset) {
  MemoryFileSystem disk;
  disk.Add(kPath, Small().Build());
  disk.Break(kPath, {.fail_at_read = 2});
  const auto model = OpenGguf(disk, kPath);
  EXPECT_EQ(model.status().code(), StatusCode::kIoError);
  EXPECT_NE(model.status().message().find("offset 0"), std::string::npos);
}

TEST(Gguf, ShortAndInterruptedReadsChangeNothing) {
  MemoryFileSystem disk;
  disk.Add(kPath, Small().Build());
  disk.Break(kPath, {.interrupt_every = 3, .max_read_bytes = 5});
  const auto model = OpenGguf(disk, kPath);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->tensors->tensors().size(), 2u);
}

TEST(Gguf, LoadsAHundredThousandTensorsWithinASecond) {
  GgufBuilder builder;
  for (int i = 0; i < 100000; ++i) builder.Add(StrCat("blk.", i, ".weight"), {1}, kF32Id, "xxxx");
  std::string file = builder.Build();
  const std::clock_t begin = std::clock();
  const Opened opened(std::move(file));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(opened.model.ok()) << opened.model.status().ToString();
  EXPECT_EQ(opened.model->tensors->tensors().size(), 100000u);
  EXPECT_LT(seconds, 1.0);
}

TEST(Gguf, LoadsAVocabularyOfTwoHundredThousandWithinASecond) {
  GgufBuilder builder;
  ByteWriter tokens;
  ByteWriter merges;
  constexpr uint64_t kTokens = 201088;
  for (uint64_t i = 0; i < kTokens; ++i) {
    tokens.String(StrCat("token", i));
    merges.String(StrCat("tok", i, " en", i));
  }
  builder.ListKey("tokenizer.ggml.tokens", 8, kTokens, tokens.bytes());
  builder.ListKey("tokenizer.ggml.merges", 8, kTokens, merges.bytes());
  builder.ListKey("tokenizer.ggml.token_type", 5, kTokens, std::string(4 * kTokens, '\1'));
  std::string file = builder.Build();
  const std::clock_t begin = std::clock();
  const Opened opened(std::move(file));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(opened.model.ok()) << opened.model.status().ToString();
  EXPECT_EQ((*opened.model->metadata.GetStrings("tokenizer.ggml.tokens"))->size(), kTokens);
  EXPECT_LT(seconds, 1.0);
}

// ---- Split sets ----

std::string PartPath(int i) {
  return StrCat("m/model-0000", i, "-of-00003.gguf");
}

GgufBuilder PartOf(int i) {
  GgufBuilder builder;
  if (i == 1) builder.TextKey("general.architecture", "test");
  builder.Key<uint16_t>("split.no", 2, static_cast<uint16_t>(i - 1));
  builder.Key<uint16_t>("split.count", 2, 3);
  builder.Key<int32_t>("split.tensors.count", 5, 4);
  builder.Add(StrCat("t", i), {1}, kF32Id, "xxxx");
  if (i == 3) builder.Add("t4", {1}, kF32Id, "yyyy");
  return builder;
}

MemoryFileSystem ThreeParts() {
  MemoryFileSystem disk;
  for (int i = 1; i <= 3; ++i) disk.Add(PartPath(i), PartOf(i).Build());
  return disk;
}

void ExpectSplitRefused(const MemoryFileSystem& disk, StatusCode code,
                        const std::vector<std::string>& words) {
  const auto model = OpenGguf(disk, PartPath(1));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), code) << model.status().ToString();
  for (const std::string& word : words) {
    EXPECT_NE(model.status().message().find(word), std::string::npos)
        << model.status().message() << " lacks " << word;
  }
}

TEST(GgufSplit, AnyPartFindsItsSiblings) {
  const MemoryFileSystem disk = ThreeParts();
  for (int i = 1; i <= 3; ++i) {
    const auto model = OpenGguf(disk, PartPath(i));
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ(model->tensors->tensors().size(), 4u);
    EXPECT_EQ(*model->metadata.GetString("general.architecture"), "test");
    const TensorInfo* tensor = model->tensors->Find("t4");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(model->tensors->files()[tensor->file], PartPath(3));
    std::vector<uint8_t> bytes(4);
    ASSERT_TRUE(model->tensors->Read(*tensor, 0, bytes).ok());
    EXPECT_EQ(bytes, std::vector<uint8_t>(4, 'y'));
  }
}

TEST(GgufSplit, RefusesAMissingPart) {
  MemoryFileSystem disk = ThreeParts();
  disk.Remove(PartPath(2));
  ExpectSplitRefused(disk, StatusCode::kNotFound, {PartPath(2), "part 2 of 3", "missing"});
}

TEST(GgufSplit, RefusesAPartCutByOneByte) {
  MemoryFileSystem disk = ThreeParts();
  std::string bytes = PartOf(3).Build();
  bytes.pop_back();
  disk.Add(PartPath(3), bytes);
  ExpectSplitRefused(disk, StatusCode::kCorruptData, {PartPath(3), "tensor t4", "cut short"});
}

TEST(GgufSplit, RefusesPartsThatWereSwapped) {
  MemoryFileSystem disk = ThreeParts();
  disk.Add(PartPath(2), PartOf(3).Build());
  disk.Add(PartPath(3), PartOf(2).Build());
  ExpectSplitRefused(disk, StatusCode::kCorruptData, {PartPath(2), "split.no is 2", "be 1"});
}

TEST(GgufSplit, RefusesAWrongCountOfTensors) {
  MemoryFileSystem disk = ThreeParts();
  GgufBuilder builder = PartOf(2);
  builder.Add("t5", {1}, kF32Id, "zzzz");
  disk.Add(PartPath(2), builder.Build());
  ExpectSplitRefused(disk, StatusCode::kCorruptData, {"split.tensors.count is 4", "be 5"});
}

TEST(GgufSplit, RefusesATensorInTwoParts) {
  MemoryFileSystem disk = ThreeParts();
  GgufBuilder builder = PartOf(2);
  builder.tensors[0].name = "t1";
  disk.Add(PartPath(2), builder.Build());
  ExpectSplitRefused(disk, StatusCode::kCorruptData, {"tensor t1", PartPath(1), PartPath(2)});
}

TEST(GgufSplit, RefusesAPartWithoutItsKeys) {
  MemoryFileSystem disk = ThreeParts();
  disk.Add(PartPath(2), Small().Build());
  ExpectSplitRefused(disk, StatusCode::kCorruptData, {PartPath(2), "no key split.no"});
}

TEST(GgufSplit, RefusesAPartUnderAnotherName) {
  MemoryFileSystem disk;
  disk.Add(kPath, PartOf(1).Build());
  const auto model = OpenGguf(disk, kPath);
  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(model.status().message().find("one of 3 parts"), std::string::npos);
}

}  // namespace
}  // namespace colibri
