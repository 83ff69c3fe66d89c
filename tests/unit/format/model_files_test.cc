#include "format/model_files.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "format/gguf_tokenizer.h"
#include "platform/file_double.h"
#include "support/gguf_builder.h"

namespace colibri {
namespace {

using testing::ByteWriter;
using testing::GgufBuilder;

std::string OneTensor() {
  constexpr std::string_view kHeader = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(kHeader.size());
  return StrCat(file, kHeader, "x");
}

std::string Gguf(std::string_view chat_template = "") {
  GgufBuilder builder;
  builder.TextKey("general.architecture", "test");
  if (!chat_template.empty()) builder.TextKey("tokenizer.chat_template", chat_template);
  return builder.Add("t", {1}, 0, "xxxx").Build();
}

MemoryFileSystem Folder() {
  MemoryFileSystem disk;
  disk.Add("m/config.json", R"({"model_type":"test"})");
  disk.Add("m/model.safetensors", OneTensor());
  return disk;
}

void ExpectRefused(const MemoryFileSystem& disk, const std::string& path, StatusCode code,
                   const std::vector<std::string>& words) {
  const auto model = OpenModelFiles(disk, path, Log());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), code) << model.status().ToString();
  for (const std::string& word : words) {
    EXPECT_NE(model.status().message().find(word), std::string::npos)
        << model.status().message() << " lacks " << word;
  }
}

TEST(OpenModelFiles, ReadsAHuggingFaceFolderWithItsTexts) {
  MemoryFileSystem disk = Folder();
  disk.Add("m/generation_config.json", R"({"eos_token_id":[1,2]})");
  disk.Add("m/tokenizer.json", "{tokenizer}");
  disk.Add("m/tokenizer_config.json", R"({"chat_template":"from config"})");
  auto model = OpenModelFiles(disk, "m", Log());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->format, ModelFormat::kHuggingFace);
  EXPECT_EQ(*model->config.GetString("model_type"), "test");
  EXPECT_EQ(*model->generation_config.GetInts("eos_token_id"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(model->tokenizer_json, "{tokenizer}");
  EXPECT_EQ(model->chat_template, "from config");
  EXPECT_NE(model->tensors->Find("t"), nullptr);
}

TEST(OpenModelFiles, TheTemplateFileComesBeforeTheConfigs) {
  MemoryFileSystem disk = Folder();
  disk.Add("m/chat_template.json", R"({"chat_template":"third"})");
  EXPECT_EQ(OpenModelFiles(disk, "m", Log())->chat_template, "third");
  disk.Add("m/tokenizer_config.json",
           R"({"model_max_length":1000000000000000019884624838656,"chat_template":[)"
           R"({"name":"tool_use","template":"no"},{"name":"default","template":"second"}]})");
  EXPECT_EQ(OpenModelFiles(disk, "m", Log())->chat_template, "second");
  disk.Add("m/chat_template.jinja", "first");
  EXPECT_EQ(OpenModelFiles(disk, "m", Log())->chat_template, "first");
}

TEST(OpenModelFiles, RefusesATemplateThatIsNoText) {
  MemoryFileSystem disk = Folder();
  disk.Add("m/tokenizer_config.json", R"({"chat_template":5})");
  ExpectRefused(disk, "m", StatusCode::kCorruptData, {"tokenizer_config.json", "chat_template"});
  disk.Add("m/tokenizer_config.json", R"({"chat_template":[{"name":"default"}]})");
  ExpectRefused(disk, "m", StatusCode::kCorruptData, {"tokenizer_config.json", "chat_template"});
}

TEST(OpenModelFiles, ReadsAGgufFileWithItsTemplate) {
  MemoryFileSystem disk;
  disk.Add("m/x.gguf", Gguf("tmpl"));
  for (const char* path : {"m/x.gguf", "m"}) {
    auto model = OpenModelFiles(disk, path, Log());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ(model->format, ModelFormat::kGguf);
    EXPECT_EQ(model->path, path);
    EXPECT_EQ(model->chat_template, "tmpl");
  }
}

TEST(OpenModelFiles, SafetensorsComeBeforeGgufInOneFolder) {
  MemoryFileSystem disk = Folder();
  disk.Add("m/model.gguf", Gguf());
  EXPECT_EQ(OpenModelFiles(disk, "m", Log())->format, ModelFormat::kHuggingFace);
  disk.Remove("m/model.safetensors");
  EXPECT_EQ(OpenModelFiles(disk, "m", Log())->format, ModelFormat::kGguf);
}

TEST(OpenModelFiles, RefusesAChoiceOfTwoGgufModels) {
  MemoryFileSystem disk;
  disk.Add("m/a.gguf", Gguf());
  disk.Add("m/b.gguf", Gguf());
  ExpectRefused(disk, "m", StatusCode::kInvalidArgument, {"2 GGUF models", "a.gguf, b.gguf"});
}

TEST(OpenModelFiles, ASplitSetCountsAsOneModel) {
  MemoryFileSystem disk;
  for (uint16_t i = 0; i < 2; ++i) {
    GgufBuilder builder;
    builder.Key<uint16_t>("split.no", 2, i).Key<uint16_t>("split.count", 2, 2);
    builder.Key<int32_t>("split.tensors.count", 5, 2).Add(StrCat("t", i), {1}, 0, "xxxx");
    disk.Add(StrCat("m/x-0000", i + 1, "-of-00002.gguf"), builder.Build());
  }
  auto model = OpenModelFiles(disk, "m", Log());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->tensors->tensors().size(), 2u);
}

TEST(OpenModelFiles, SaysWhatToNameInstead) {
  MemoryFileSystem disk = Folder();
  disk.Add("m/notes.txt", "hello");
  disk.Add("e/readme", "");
  disk.Add("p/config.json", "{}");
  disk.Add("p/pytorch_model.bin", "");
  ExpectRefused(disk, "m/config.json", StatusCode::kInvalidArgument, {"folder"});
  ExpectRefused(disk, "m/model.safetensors", StatusCode::kInvalidArgument, {"folder"});
  ExpectRefused(disk, "m/notes.txt", StatusCode::kCorruptData, {"no GGUF file"});
  ExpectRefused(disk, "nowhere", StatusCode::kNotFound, {"nowhere", ".gguf"});
  ExpectRefused(disk, "e", StatusCode::kNotFound, {"neither"});
  ExpectRefused(disk, "p", StatusCode::kUnsupported, {".bin", "safetensors"});
}

TEST(OpenModelFiles, SaysWhyAPathThatIsThereCannotBeAModel) {
  const auto model = OpenModelFiles("/dev/null", Log());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(model.status().message().find("/dev/null"), std::string::npos);
}

TEST(OpenModelFiles, ABrokenConfigNamesItsFile) {
  MemoryFileSystem disk = Folder();
  disk.Add("m/config.json", "{");
  ExpectRefused(disk, "m", StatusCode::kCorruptData, {"m/config.json"});
  disk = Folder();
  disk.Add("m/generation_config.json", "{");
  ExpectRefused(disk, "m", StatusCode::kCorruptData, {"m/generation_config.json"});
  disk = Folder();
  disk.Break("m/config.json", {.fail_at_read = 1});
  ExpectRefused(disk, "m", StatusCode::kIoError, {"m/config.json", "offset 0"});
}

TEST(ReadGgufVocab, CollectsEveryKey) {
  Metadata m("x.gguf");
  m.Set("tokenizer.ggml.model", std::string("gpt2"));
  m.Set("tokenizer.ggml.pre", std::string("qwen2"));
  m.Set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  m.Set("tokenizer.ggml.token_type", std::vector<int64_t>{1, 3});
  m.Set("tokenizer.ggml.scores", std::vector<double>{0.5, -1});
  m.Set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  m.Set("tokenizer.ggml.bos_token_id", int64_t{1});
  m.Set("tokenizer.ggml.eos_token_id", int64_t{0});
  m.Set("tokenizer.ggml.add_bos_token", false);
  const auto vocab = ReadGgufVocab(m);
  ASSERT_TRUE(vocab.ok()) << vocab.status().ToString();
  EXPECT_EQ(vocab->source, "x.gguf");
  EXPECT_EQ(vocab->model, "gpt2");
  EXPECT_EQ(vocab->pre, "qwen2");
  EXPECT_EQ(vocab->tokens.size(), 2u);
  EXPECT_EQ(vocab->token_types, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(vocab->scores, (std::vector<float>{0.5f, -1.0f}));
  EXPECT_EQ(vocab->merges.size(), 1u);
  EXPECT_EQ(vocab->bos_id, 1u);
  EXPECT_EQ(vocab->eos_id, 0u);
  EXPECT_EQ(vocab->eot_id, std::nullopt);
  EXPECT_EQ(vocab->add_bos, false);
  EXPECT_EQ(vocab->add_eos, std::nullopt);
}

TEST(ReadGgufVocab, RefusesKeysOfAnotherKindByName) {
  const std::pair<const char*, MetaValue> wrong[] = {
      {"tokenizer.ggml.model", int64_t{1}},
      {"tokenizer.ggml.tokens", std::vector<int64_t>{1}},
      {"tokenizer.ggml.token_type", std::vector<int64_t>{int64_t{1} << 40}},
      {"tokenizer.ggml.scores", std::string("x")},
      {"tokenizer.ggml.bos_token_id", int64_t{-1}},
      {"tokenizer.ggml.add_bos_token", std::string("yes")}};
  for (const auto& [key, value] : wrong) {
    Metadata m("x.gguf");
    m.Set(key, value);
    const auto vocab = ReadGgufVocab(m);
    ASSERT_FALSE(vocab.ok()) << key;
    EXPECT_EQ(vocab.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(vocab.status().message().find(key), std::string::npos) << vocab.status().message();
  }
}

}  // namespace
}  // namespace colibri
