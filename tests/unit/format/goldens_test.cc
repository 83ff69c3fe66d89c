// Reads every model of the test assets.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "base/strings.h"
#include "format/hf_config.h"
#include "format/model_files.h"
#include "format/safetensors.h"
#include "support/assets.h"
#include "tensor/dequantize.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> GoldenFolders() {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(testing::AssetsDir() + "/goldens")) {
    if (entry.is_directory()) folders.push_back(entry.path().string());
  }
  return folders;
}

std::vector<uint8_t> ReadAll(const TensorSource& source, const TensorInfo& tensor) {
  std::vector<uint8_t> bytes(tensor.n_bytes);
  const Status status = source.Read(tensor, 0, bytes);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return bytes;
}

// Values of a tensor of any type as float32.
std::vector<float> ReadFloats(const TensorSource& source, const TensorInfo& tensor) {
  const std::vector<uint8_t> bytes = ReadAll(source, tensor);
  size_t n = 1;
  for (const uint64_t dim : tensor.shape) n *= dim;
  std::vector<float> values(n);
  DequantizeReference(tensor.dtype, bytes.data(), values.data(), n);
  return values;
}

class BlockTypes : public ::testing::TestWithParam<std::string> {};

TEST_P(BlockTypes, DecodeToTheExactValues) {
  COLIBRI_REQUIRE_ASSETS();
  const auto dtype = ParseDType(GetParam());
  ASSERT_TRUE(dtype.has_value());
  auto source = OpenSafetensorsFile(
      LocalFileSystem(), StrCat(testing::AssetsDir(), "/quants/", GetParam(), ".safetensors"));
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const TensorInfo* blocks = (*source)->Find("blocks");
  const TensorInfo* values = (*source)->Find("values");
  ASSERT_NE(blocks, nullptr);
  ASSERT_NE(values, nullptr);
  const std::vector<float> expected = ReadFloats(**source, *values);
  ASSERT_EQ(DTypeBytes(*dtype, expected.size()), blocks->n_bytes);
  const std::vector<uint8_t> bytes = ReadAll(**source, *blocks);
  std::vector<float> decoded(expected.size());
  DequantizeReference(*dtype, bytes.data(), decoded.data(), decoded.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    uint32_t want = 0;
    uint32_t have = 0;
    std::memcpy(&want, &expected[i], 4);
    std::memcpy(&have, &decoded[i], 4);
    ASSERT_EQ(have, want) << "element " << i << ": " << decoded[i] << " is not " << expected[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockTypes,
                         ::testing::Values("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1",
                                           "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq1_s",
                                           "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs",
                                           "iq3_s", "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4",
                                           "nvfp4"),
                         [](const auto& test) { return test.param; });

TEST(Goldens, EveryFolderOpensWithAllItsTensors) {
  COLIBRI_REQUIRE_ASSETS();
  for (const std::string& folder : GoldenFolders()) {
    auto model = OpenModelFiles(folder, Log());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ(model->format, ModelFormat::kHuggingFace);
    EXPECT_GT(model->tensors->tensors().size(), 10u) << folder;
    EXPECT_TRUE(model->config.Has("model_type")) << folder;
  }
}

TEST(Goldens, EveryGgufOpensWithAllItsTensors) {
  COLIBRI_REQUIRE_ASSETS();
  int n_files = 0;
  for (const std::string& folder : GoldenFolders()) {
    const std::string path = folder + "/model.gguf";
    if (!fs::exists(path)) continue;
    ++n_files;
    auto model = OpenModelFiles(path, Log());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ(model->format, ModelFormat::kGguf);
    EXPECT_EQ(model->tensors->format(), "gguf v3");
    EXPECT_TRUE(model->config.Has("general.architecture"));
    EXPECT_NE(model->tensors->Find("token_embd.weight"), nullptr) << folder;
  }
  EXPECT_GE(n_files, 20);
}

TEST(Goldens, BothSpellingsOfEveryConfigFlatten) {
  COLIBRI_REQUIRE_ASSETS();
  for (const std::string& folder : GoldenFolders()) {
    for (const char* name : {"/config.json", "/config.v5.json"}) {
      const auto config = FlattenConfig(testing::ReadFile(folder + name), folder + name);
      ASSERT_TRUE(config.ok()) << config.status().ToString();
      EXPECT_TRUE(*config->GetString("model_type")) << folder << name;
    }
  }
}

// The converter keeps the order of an embedding's elements, so both files hold the same numbers.
TEST(Goldens, SafetensorsAndGgufGiveTheSameEmbedding) {
  COLIBRI_REQUIRE_ASSETS();
  for (const char* name : {"qwen3_moe", "qwen3_moe_bf16_sharded", "mixtral_tied_f16", "gpt_oss"}) {
    const std::string folder = StrCat(testing::AssetsDir(), "/goldens/", name);
    auto hf = OpenModelFiles(folder, Log());
    auto gguf = OpenModelFiles(folder + "/model.gguf", Log());
    ASSERT_TRUE(hf.ok()) << hf.status().ToString();
    ASSERT_TRUE(gguf.ok()) << gguf.status().ToString();
    const TensorInfo* a = hf->tensors->Find("model.embed_tokens.weight");
    const TensorInfo* b = gguf->tensors->Find("token_embd.weight");
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(a->shape, b->shape) << name;
    EXPECT_EQ(ReadFloats(*hf->tensors, *a), ReadFloats(*gguf->tensors, *b)) << name;
  }
}

// FNV-1a of the tensor's bytes as the Python packages safetensors and gguf read them.
TEST(Goldens, TensorBytesAreThoseThatPythonReads) {
  COLIBRI_REQUIRE_ASSETS();
  struct Row {
    const char* model;
    const char* tensor;
    uint64_t hash;
  };
  const Row rows[] = {
      {"goldens/qwen3_moe_bf16_sharded", "model.layers.1.self_attn.q_proj.weight",
       0xb7199da21137dc76},
      {"models/nano", "model.layers.3.mlp.experts.5.down_proj.weight", 0x07d8032c93b4ad24},
      {"goldens/gpt_oss/model.gguf", "blk.0.ffn_down_exps.weight", 0xd1502bc940c0619c},
      {"models/nano/nano-q4_0.gguf", "blk.3.ffn_down_exps.weight", 0x1829dc94c51bb846},
      {"models/nano/nano-q8_0.gguf", "token_embd.weight", 0xdce73cac6f02593e},
  };
  for (const Row& row : rows) {
    auto model = OpenModelFiles(StrCat(testing::AssetsDir(), "/", row.model), Log());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const TensorInfo* tensor = model->tensors->Find(row.tensor);
    ASSERT_NE(tensor, nullptr) << row.tensor;
    uint64_t hash = 0xcbf29ce484222325;
    for (const uint8_t byte : ReadAll(*model->tensors, *tensor)) {
      hash = (hash ^ byte) * 0x100000001b3;
    }
    EXPECT_EQ(hash, row.hash) << row.model << " " << row.tensor;
  }
}

TEST(Nano, OpensInAllItsForms) {
  COLIBRI_REQUIRE_ASSETS();
  const std::string folder = testing::AssetsDir() + "/models/nano";
  auto hf = OpenModelFiles(folder, Log());
  ASSERT_TRUE(hf.ok()) << hf.status().ToString();
  EXPECT_FALSE(hf->tokenizer_json.empty());
  EXPECT_FALSE(hf->chat_template.empty());
  EXPECT_TRUE(hf->generation_config.Has("eos_token_id"));
  for (const char* name : {"/nano-f16.gguf", "/nano-q8_0.gguf", "/nano-q4_0.gguf"}) {
    auto gguf = OpenModelFiles(folder + name, Log());
    ASSERT_TRUE(gguf.ok()) << gguf.status().ToString();
    EXPECT_FALSE(gguf->chat_template.empty());
    EXPECT_EQ(*gguf->config.GetString("general.architecture"), "qwen3moe");
    const auto tokens = gguf->config.GetStrings("tokenizer.ggml.tokens");
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ((*tokens)->size(), gguf->tensors->Find("token_embd.weight")->shape[0]);
  }
}

}  // namespace
}  // namespace colibri
