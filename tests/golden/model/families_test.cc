// Every family against transformers in float32: logits, each layer's residual stream, greedy
// tokens; from the folder as hubs hold it, as transformers 5 writes it, and from GGUF.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "support/assets.h"
#include "support/model_runner.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

// Largest difference that a logit may have, as a part of the largest logit's magnitude.
constexpr float kTolerance = 1e-4f;

struct Expected {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> greedy_ids;
  std::vector<float> logits;
  std::vector<float> layer_hidden;
};

std::vector<uint8_t> ReadTensor(const TensorSource& tensors, const char* name) {
  const TensorInfo* tensor = tensors.Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<uint8_t> bytes(tensor->n_bytes);
  EXPECT_TRUE(tensors.Read(*tensor, 0, bytes).ok());
  return bytes;
}

std::vector<int32_t> ReadIds(const TensorSource& tensors, const char* name) {
  const std::vector<uint8_t> bytes = ReadTensor(tensors, name);
  std::vector<int32_t> ids;
  for (size_t at = 0; at < bytes.size(); at += 8) {
    int64_t id = 0;
    std::memcpy(&id, &bytes[at], 8);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::vector<float> ReadFloats(const TensorSource& tensors, const char* name) {
  const std::vector<uint8_t> bytes = ReadTensor(tensors, name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A folder with some files of a golden, links to the rest; removed at the end.
class LinkedFolder {
 public:
  explicit LinkedFolder(const std::string& name)
      : path_(fs::temp_directory_path() / ("colibri_" + name + "_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~LinkedFolder() { fs::remove_all(path_); }
  void Link(const fs::path& target, const std::string& as) const {
    fs::create_symlink(fs::absolute(target), path_ / as);
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

Expected LoadExpected(const fs::path& golden) {
  const LinkedFolder folder(golden.filename().string() + "_expected");
  folder.Link(golden / "expected.safetensors", "model.safetensors");
  folder.Link(golden / "config.json", "config.json");
  auto files = OpenModelFiles(folder.path(), Log());
  EXPECT_TRUE(files.ok()) << files.status().ToString();
  const TensorSource& tensors = *files->tensors;
  return {ReadIds(tensors, "input_ids"), ReadIds(tensors, "greedy_ids"),
          ReadFloats(tensors, "logits"), ReadFloats(tensors, "layer_hidden")};
}

// Compares rows and says where they part first.
void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected, size_t row,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_LE(std::fabs(actual[i] - expected[i]), kTolerance * largest)
        << what << ": row " << i / row << ", element " << i % row << ": is " << actual[i]
        << ", expected " << expected[i];
  }
}

void ExpectGolden(const std::string& model_path, const fs::path& golden) {
  auto runner = testing::ModelRunner::Open(model_path);
  ASSERT_TRUE(runner.ok()) << runner.status().ToString();
  const Expected expected = LoadExpected(golden);
  const ModelConfig& config = (*runner)->config();
  const auto n = static_cast<int32_t>(expected.input_ids.size());
  const auto n_greedy = static_cast<int32_t>(expected.greedy_ids.size()) - n;
  const testing::RunResult result = (*runner)->Run(expected.input_ids, 0, n_greedy);
  const auto hidden = static_cast<size_t>(config.hidden);
  const size_t state = static_cast<size_t>(n) * hidden;
  ASSERT_EQ(result.layer_hidden.size(), expected.layer_hidden.size());
  for (size_t s = 0; s <= config.layers.size(); ++s) {
    const auto part = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + static_cast<ptrdiff_t>(s * state),
                                all.begin() + static_cast<ptrdiff_t>((s + 1) * state));
    };
    ExpectClose(part(result.layer_hidden), part(expected.layer_hidden), hidden,
                config.family + ", " +
                    (s == 0 ? std::string("embedding") : "layer " + std::to_string(s - 1)));
    if (::testing::Test::HasFatalFailure()) return;
  }
  ExpectClose(result.logits, expected.logits, static_cast<size_t>(config.vocab_size),
              config.family + ", logits");
  EXPECT_EQ(result.greedy, expected.greedy_ids) << config.family;
  // Chunks never show in a bit.
  const testing::RunResult chunked = (*runner)->Run(expected.input_ids, 7, n_greedy);
  EXPECT_EQ(std::memcmp(chunked.logits.data(), result.logits.data(),
                        result.logits.size() * sizeof(float)),
            0)
      << config.family;
}

// Small cases with unusual options stand in the repository (tools/golden_cases.py makes them), all
// others among the assets.
class Family : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const fs::path own = fs::path(testing::SourceDir()) / "tests/golden/cases" / GetParam();
    if (fs::exists(own)) {
      golden_ = own;
      return;
    }
    COLIBRI_REQUIRE_ASSETS();
    golden_ = fs::path(testing::AssetsDir()) / "goldens" / GetParam();
  }
  const fs::path& golden() const { return golden_; }

 private:
  fs::path golden_;
};

TEST_P(Family, AgreesWithTransformersFromAFolderAsHubsHoldIt) {
  ExpectGolden(golden().string(), golden());
}

TEST_P(Family, AgreesWithTransformersFromAFolderAsTransformers5WritesIt) {
  const LinkedFolder folder(std::string(GetParam()) + "_v5");
  for (const auto& entry : fs::directory_iterator(golden())) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("model", 0) == 0 && name != "model.gguf") folder.Link(entry.path(), name);
  }
  folder.Link(golden() / "config.v5.json", "config.json");
  ExpectGolden(folder.path(), golden());
}

TEST_P(Family, AgreesWithTransformersFromGguf) {
  const fs::path gguf = golden() / "model.gguf";
  if (!fs::exists(gguf)) return;  // llama.cpp's converter does not know every family
  ExpectGolden(gguf.string(), golden());
}

INSTANTIATE_TEST_SUITE_P(Goldens, Family,
                         ::testing::Values("mixtral", "mixtral_sliding", "mixtral_tied_f16",
                                           "qwen2_moe", "qwen2_moe_hybrid", "qwen3_moe",
                                           "qwen3_moe_yarn", "qwen3_moe_bf16_sharded", "olmoe",
                                           "deepseek_v2", "deepseek_v3", "deepseek_v3_yarn",
                                           "gpt_oss", "glm4_moe", "granite_moe", "phimoe", "dots1",
                                           "ernie4_5_moe", "hunyuan_moe", "minimax_m2"),
                         [](const auto& test) { return std::string(test.param); });

INSTANTIATE_TEST_SUITE_P(Options, Family,
                         ::testing::Values("mixtral-absent-keys", "qwen2_moe-hybrid", "olmoe-clip",
                                           "deepseek_v2-groups", "deepseek_v3-no-q-lora",
                                           "gpt_oss-default-rope", "glm4_moe-groups",
                                           "granite_moe-multipliers", "phimoe-longrope",
                                           "ernie4_5_moe-interval", "hunyuan-lists",
                                           "minimax_m2-rotary-dim"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace colibri
