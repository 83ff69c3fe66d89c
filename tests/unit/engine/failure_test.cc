// What is said of a value that ceases to be finite: where it first did, whatever weight did it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "chain_model.h"
#include "engine/engine.h"
#include "support/assets.h"

namespace colibri {
namespace {

using testing::ChainModel;
using testing::kA;
using testing::kChainVocab;
using testing::kEndOfText;
using testing::LoadEngine;

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One step of sequences that begin with these tokens.
struct Outcome {
  std::vector<StepResult> results;
  std::vector<std::vector<float>> logits;
};
Outcome StepAll(Engine& engine, const std::vector<std::vector<int32_t>>& tokens) {
  const auto vocab = static_cast<size_t>(engine.vocab_size());
  std::vector<float> logits(tokens.size() * vocab);
  std::vector<StepItem> items;
  for (const std::vector<int32_t>& ids : tokens) {
    const auto sequence = engine.CreateSequence(40);
    EXPECT_TRUE(sequence.ok());
    items.push_back({*sequence, ids, LogitsWanted::kLast});
  }
  Outcome outcome;
  outcome.results.resize(tokens.size());
  EXPECT_TRUE(engine.Step(items, {.logits = logits, .results = outcome.results}).ok());
  for (const StepResult& result : outcome.results) {
    const auto first = static_cast<ptrdiff_t>(result.first_logits_row) * engine.vocab_size();
    outcome.logits.emplace_back(logits.begin() + first,
                                logits.begin() + first + engine.vocab_size());
  }
  return outcome;
}

std::string ErrorOf(const ChainModel& model, const std::vector<int32_t>& tokens,
                    int n_threads = 2) {
  const auto engine = LoadEngine(model.path(), {.n_threads = n_threads, .max_batch_tokens = 16});
  if (engine == nullptr) return {};
  const StepResult result = StepAll(*engine, {tokens}).results[0];
  EXPECT_EQ(result.status.code(), StatusCode::kInternal);
  return result.status.message();
}

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

TEST(Failure, NamesTheLayerAndTheTensor) {
  const std::string layer = "model.layers.1.";
  for (const float value : {kNotANumber, kInfinity, -kInfinity}) {
    for (const char* name :
         {"input_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
          "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight",
          "block_sparse_moe.gate.weight"}) {
      const ChainModel model({.poison = {{layer + name, value}}});
      const std::string message = ErrorOf(model, {kA, kA + 1, kA + 2});
      SCOPED_TRACE(StrCat(name, " ", value));
      EXPECT_SAYS(message, "ceased to be finite in layer 1 of 2, in ");
      EXPECT_SAYS(message, layer + name + ", at position 0");
    }
  }
}

TEST(Failure, NamesTheExpertsMatrix) {
  for (const float value : {kNotANumber, kInfinity}) {
    for (const char* part : {"w1", "w2", "w3"}) {
      std::map<std::string, float> poison;
      for (int e = 0; e < 4; ++e) {
        poison[StrCat("model.layers.1.block_sparse_moe.experts.", e, ".", part, ".weight")] = value;
      }
      const ChainModel model({.poison = poison});
      for (const int n_threads : {1, 2}) {
        const std::string message = ErrorOf(model, {kA, kA + 1}, n_threads);
        EXPECT_SAYS(message, "layer 1 of 2, in the product with model.layers.1.block_sparse_moe");
        EXPECT_SAYS(message, StrCat(".", part, ".weight of expert "));
      }
    }
  }
}

TEST(Failure, OfAnExpertEndsThoseThatGoThereAlone) {
  const ChainModel model(
      {.poison = {{"model.layers.0.block_sparse_moe.experts.2.w3.weight", kNotANumber}}}),
      clean({});
  const auto engine = LoadEngine(model.path(),
                                 {.n_threads = 2, .max_batch_tokens = 64, .max_sequences = 20}),
             reference = LoadEngine(clean.path(),
                                    {.n_threads = 2, .max_batch_tokens = 64, .max_sequences = 20});
  ASSERT_TRUE(engine != nullptr && reference != nullptr);
  std::vector<std::vector<int32_t>> tokens;
  for (int32_t i = 0; i < 20; ++i) tokens.push_back({kA + i});
  const Outcome outcome = StepAll(*engine, tokens), expected = StepAll(*reference, tokens);
  size_t n_failed = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (outcome.results[i].status.ok()) {
      EXPECT_EQ(outcome.logits[i], expected.logits[i]);
      continue;
    }
    ++n_failed;
    EXPECT_SAYS(outcome.results[i].status.message(),
                "layer 0 of 2, in the product with "
                "model.layers.0.block_sparse_moe.experts.2.w3.weight of expert 2");
  }
  EXPECT_GT(n_failed, 0u);
  EXPECT_LT(n_failed, tokens.size());
}

TEST(Failure, NamesTheEmbeddingTheLastNormAndTheHead) {
  const ChainModel embedding({.poison = {{"model.embed_tokens.weight", kInfinity}}});
  EXPECT_SAYS(ErrorOf(embedding, {kA, kEndOfText, kA}),
              "layer 0 of 2, in the embedding model.embed_tokens.weight, at position 1 (of "
              "positions 0 to 2)");
  const ChainModel norm({.poison = {{"model.norm.weight", kNotANumber}}});
  EXPECT_SAYS(ErrorOf(norm, {kA, kA}),
              "the output head, in the norm with model.norm.weight, at position 1");
  const ChainModel head({.poison = {{"lm_head.weight", kNotANumber}}});
  EXPECT_SAYS(ErrorOf(head, {kA, kA}),
              "the output head, in the product with lm_head.weight, at position 1");
}

TEST(Failure, AKeyTooLargeForTheCachesTypeIsSaid) {
  // Token 0 alone has something in the column that this multiplies.
  const ChainModel model({.poison = {{"model.layers.0.self_attn.k_proj.weight", -1e5f}}});
  const std::vector<std::vector<int32_t>> tokens = {{kEndOfText, kA}, {kA, kA + 1}};
  const auto narrow = LoadEngine(model.path(), {.max_batch_tokens = 16, .kv_type = KvType::kF16});
  const Outcome outcome = StepAll(*narrow, tokens);
  EXPECT_FALSE(outcome.results[0].status.ok());
  EXPECT_SAYS(outcome.results[0].status.message(), "layer 0 of 2, in the cache, whose type");
  EXPECT_SAYS(outcome.results[0].status.message(), "model.layers.0.self_attn.k_proj.weight");
  EXPECT_TRUE(outcome.results[1].status.ok());
  const auto wide = LoadEngine(model.path(), {.max_batch_tokens = 16, .kv_type = KvType::kF32});
  EXPECT_TRUE(StepAll(*wide, tokens).results[0].status.ok());
}

// A copy of a golden's folder, one tensor of which can begin with a value that is not a number.
class PoisonedFolder {
 public:
  explicit PoisonedFolder(const std::filesystem::path& golden)
      : path_(std::filesystem::path(::testing::TempDir()) /
              StrCat("colibri_poisoned_", golden.filename().string())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(golden / name, path_ / name);
  }
  ~PoisonedFolder() { std::filesystem::remove_all(path_); }

  std::string path() const { return path_.string(); }

  // Swaps the tensor's first bytes for those of NaN; a second call swaps them back.
  void Swap(const TensorInfo& tensor) {
    const std::string nan = tensor.dtype == DType::kF32 ? std::string("\x00\x00\xc0\x7f", 4)
                                                        : std::string("\xc0\x7f", 2);
    if (kept_.empty()) kept_ = nan;
    std::fstream file(path_ / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    std::string there(nan.size(), '\0');
    file.seekg(static_cast<std::streamoff>(tensor.offset));
    file.read(there.data(), static_cast<std::streamsize>(there.size()));
    file.seekp(static_cast<std::streamoff>(tensor.offset));
    file.write(kept_.data(), static_cast<std::streamsize>(kept_.size()));
    kept_ = kept_ == nan ? there : std::string();
  }

 private:
  std::filesystem::path path_;
  std::string kept_;
};

// Whatever a family has: latent attention, sinks, biases, shared experts and their gates.
TEST(Failure, NamesEveryTensorOfEveryGolden) {
  size_t n_named = 0;
  for (const auto& golden :
       std::filesystem::directory_iterator(testing::SourceDir() + "/tests/golden/cases")) {
    PoisonedFolder folder(golden.path());
    const auto files = OpenModelFiles(folder.path(), Log());
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    for (const TensorInfo& tensor : files->tensors->tensors()) {
      SCOPED_TRACE(StrCat(golden.path().filename().string(), " ", tensor.name));
      if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16) continue;
      // Those of experts and of other tokens may not be met.
      const bool may_be_met = tensor.name.find(".experts.") != std::string::npos ||
                              tensor.name == "model.embed_tokens.weight";
      folder.Swap(tensor);
      const auto engine = LoadEngine(folder.path(), {.n_threads = 2, .max_batch_tokens = 16});
      ASSERT_NE(engine, nullptr);
      const StepResult result = StepAll(*engine, {{5, 6, 7, 8, 9}}).results[0];
      EXPECT_TRUE(!result.status.ok() || may_be_met);
      if (!result.status.ok()) {
        EXPECT_SAYS(result.status.message(), tensor.name);
        ++n_named;
      }
      folder.Swap(tensor);
    }
  }
  EXPECT_GT(n_named, 200u);
}

// Colibri Nano with the scale of a block of every expert's matrix not a number: panels, and names
// of a GGUF file.
TEST(Failure, NamesAQuantisedMatrixOfAGgufFile) {
  const std::string nano = testing::SourceDir() + "/models/nano/nano-q8_0.gguf";
  const auto files = OpenModelFiles(nano, Log());
  ASSERT_TRUE(files.ok());
  for (const char* name : {"blk.2.ffn_gate_exps.weight", "blk.3.ffn_down_exps.weight"}) {
    const TensorInfo* tensor = files->tensors->Find(name);
    ASSERT_NE(tensor, nullptr);
    ASSERT_EQ(tensor->dtype, DType::kQ8_0);
    const auto path =
        std::filesystem::path(::testing::TempDir()) / StrCat("colibri_poisoned_", name, ".gguf");
    std::filesystem::copy_file(nano, path, std::filesystem::copy_options::overwrite_existing);
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const uint64_t n_experts = tensor->shape[0];
      for (uint64_t e = 0; e < n_experts; ++e) {
        file.seekp(static_cast<std::streamoff>(tensor->offset + e * (tensor->n_bytes / n_experts)));
        file.write("\x00\x7e", 2);
      }
    }
    const auto engine = LoadEngine(path.string(), {.n_threads = 2, .max_batch_tokens = 64});
    ASSERT_NE(engine, nullptr);
    const StepResult result = StepAll(*engine, {{5, 6, 7, 8}}).results[0];
    EXPECT_SAYS(result.status.message(), StrCat("layer ", name[4]));
    EXPECT_SAYS(result.status.message(), StrCat("in the product with ", name, " of expert "));
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace colibri
