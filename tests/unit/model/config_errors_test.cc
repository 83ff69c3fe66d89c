// What a configuration or a table of tensors may not say: each is refused with a message that names
// the key or the tensor.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "model/model.h"
#include "model/resolve.h"
#include "support/fake_model.h"

namespace colibri {
namespace {

// The configuration of a tiny Mixtral with one key changed or added.
std::string MixtralConfig(std::string_view changed_key = "", std::string_view changed_value = "") {
  const std::vector<std::pair<std::string_view, std::string_view>> keys = {
      {"architectures", R"(["MixtralForCausalLM"])"},
      {"hidden_size", "8"},
      {"intermediate_size", "12"},
      {"num_hidden_layers", "1"},
      {"num_attention_heads", "2"},
      {"num_key_value_heads", "1"},
      {"vocab_size", "16"},
      {"max_position_embeddings", "64"},
      {"rms_norm_eps", "1e-5"},
      {"num_local_experts", "2"},
      {"num_experts_per_tok", "1"},
  };
  std::string json = "{";
  bool changed = changed_key.empty();
  for (const auto& [key, value] : keys) {
    const bool same = key == changed_key;
    changed |= same;
    json += StrCat(json.size() > 1 ? "," : "", "\"", key, "\":", same ? changed_value : value);
  }
  if (!changed) json += StrCat(",\"", changed_key, "\":", changed_value);
  return json + "}";
}

testing::FakeTensors MixtralTensors() {
  testing::FakeTensors tensors;
  tensors.Add("model.embed_tokens.weight", {16, 8});
  tensors.Add("model.norm.weight", {8});
  tensors.Add("lm_head.weight", {16, 8});
  const std::string layer = "model.layers.0.";
  tensors.Add(layer + "input_layernorm.weight", {8});
  tensors.Add(layer + "post_attention_layernorm.weight", {8});
  tensors.Add(layer + "self_attn.q_proj.weight", {8, 8});
  tensors.Add(layer + "self_attn.k_proj.weight", {4, 8});
  tensors.Add(layer + "self_attn.v_proj.weight", {4, 8});
  tensors.Add(layer + "self_attn.o_proj.weight", {8, 8});
  tensors.Add(layer + "block_sparse_moe.gate.weight", {2, 8});
  for (const std::string expert : {"0", "1"}) {
    tensors.Add(layer + "block_sparse_moe.experts." + expert + ".w1.weight", {12, 8});
    tensors.Add(layer + "block_sparse_moe.experts." + expert + ".w3.weight", {12, 8});
    tensors.Add(layer + "block_sparse_moe.experts." + expert + ".w2.weight", {8, 12});
  }
  return tensors;
}

Status Plan(const std::string& config, testing::FakeTensors tensors = MixtralTensors()) {
  auto files = testing::FakeFolder(config, std::move(tensors));
  if (!files.ok()) return files.status();
  return PlanModel(*files, Log(), ActivationType::kInt8).status();
}

void ExpectRefused(const Status& status, StatusCode code, std::string_view part) {
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
}

TEST(ModelConfig, TheTinyMixtralItselfIsRight) {
  const Status status = Plan(MixtralConfig());
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(ModelConfig, AnUnknownClassIsRefusedWithTheFamiliesThatAreKnown) {
  ExpectRefused(Plan(MixtralConfig("architectures", R"(["XyzForCausalLM"])")),
                StatusCode::kUnsupported, "XyzForCausalLM");
  ExpectRefused(Plan(MixtralConfig("architectures", R"(["XyzForCausalLM"])")),
                StatusCode::kUnsupported, "qwen3_moe");
}

TEST(ModelConfig, TheModelTypeNamesTheFamilyWhereNoClassDoes) {
  auto files = testing::FakeFolder(R"({"model_type": "olmoe"})");
  ASSERT_TRUE(files.ok());
  auto spec = FindArchSpec(*files);
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ((*spec)->name, "olmoe");
}

TEST(ModelConfig, AnUnknownRopeTypeIsRefused) {
  ExpectRefused(Plan(MixtralConfig("rope_scaling", R"({"rope_type": "xyz", "factor": 2.0})")),
                StatusCode::kUnsupported, "rope_scaling.rope_type");
  ExpectRefused(Plan(MixtralConfig("rope_scaling", R"({"type": "xyz", "factor": 2.0})")),
                StatusCode::kUnsupported, "xyz");
}

TEST(ModelConfig, AnUnknownActivationIsRefused) {
  ExpectRefused(Plan(MixtralConfig("hidden_act", R"("mish")")), StatusCode::kUnsupported, "mish");
}

TEST(ModelConfig, ExpertsPerTokenLieBetweenOneAndTheNumberOfExperts) {
  ExpectRefused(Plan(MixtralConfig("num_experts_per_tok", "0")), StatusCode::kInvalidArgument,
                "between 1 and");
  ExpectRefused(Plan(MixtralConfig("num_experts_per_tok", "3")), StatusCode::kInvalidArgument,
                "between 1 and");
  ExpectRefused(Plan(MixtralConfig("num_experts_per_tok", "1e9")), StatusCode::kInvalidArgument,
                "between 1 and");
}

TEST(ModelConfig, SizesBeyondTheCapsAreRefusedByTheirKey) {
  for (const char* key : {"num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads",
                          "num_local_experts", "max_position_embeddings", "head_dim"}) {
    for (const char* value : {"9223372036854775807", "1e300", "-1", "2.5"}) {
      ExpectRefused(Plan(MixtralConfig(key, value)), StatusCode::kInvalidArgument, key);
    }
  }
  // More layers than any tensor table holds: the first tensor that is not there ends it.
  ExpectRefused(Plan(MixtralConfig("num_hidden_layers", "65536")), StatusCode::kNotFound,
                "model.layers.1.");
}

TEST(ModelConfig, SizesWhoseProductExceedsTheCapAreRefused) {
  ExpectRefused(Plan(MixtralConfig("intermediate_size", "2147483647")),
                StatusCode::kInvalidArgument, "intermediate_size");
  std::string config = MixtralConfig("head_dim", "1048576");
  for (const std::string key : {"num_attention_heads\":", "num_key_value_heads\":"}) {
    config.replace(config.find(key) + key.size(), 1, "16384");
  }
  ExpectRefused(Plan(config), StatusCode::kInvalidArgument, "16384 heads of 1048576");
}

TEST(ModelConfig, ValuesOfAnotherKindAreRefusedByTheirKey) {
  ExpectRefused(Plan(MixtralConfig("hidden_size", R"("large")")), StatusCode::kInvalidArgument,
                "hidden_size");
  ExpectRefused(Plan(MixtralConfig("rms_norm_eps", "NaN")), StatusCode::kInvalidArgument,
                "rms_norm_eps");
  ExpectRefused(Plan(MixtralConfig("rms_norm_eps", "-1")), StatusCode::kInvalidArgument, "epsilon");
  ExpectRefused(Plan(MixtralConfig("tie_word_embeddings", "2")), StatusCode::kInvalidArgument,
                "tie_word_embeddings");
  ExpectRefused(Plan(MixtralConfig("rope_theta", "0")), StatusCode::kInvalidArgument, "rope base");
}

TEST(ModelConfig, RopeSettingsWithoutFiniteFrequenciesAreRefused) {
  ExpectRefused(Plan(MixtralConfig("rope_scaling",
                                   R"({"rope_type": "yarn", "factor": 4.0, "beta_fast": -1})")),
                StatusCode::kInvalidArgument, "not finite");
  ExpectRefused(Plan(MixtralConfig("rope_scaling", R"({"rope_type": "linear", "factor": 0})")),
                StatusCode::kInvalidArgument, "factor");
  ExpectRefused(Plan(MixtralConfig("rope_scaling", R"({"rope_type": "longrope", "factor": 2.0})")),
                StatusCode::kInvalidArgument, "long_factor");
}

TEST(ModelConfig, WeightsOfAQuantizationThatIsNotReadAreRefused) {
  ExpectRefused(Plan(MixtralConfig("quantization_config", R"({"quant_method": "fp8"})")),
                StatusCode::kUnsupported, "fp8");
}

TEST(ModelTensors, AMissingOneIsNamedWithItsShape) {
  testing::FakeTensors tensors = MixtralTensors();
  tensors.Remove("model.layers.0.block_sparse_moe.experts.1.w2.weight");
  ExpectRefused(Plan(MixtralConfig(), tensors), StatusCode::kNotFound,
                "model.layers.0.block_sparse_moe.experts.1.w2.weight [8, 12]");
}

TEST(ModelTensors, OneThatNoRuleUsesIsNamed) {
  testing::FakeTensors tensors = MixtralTensors();
  tensors.Add("model.layers.0.self_attn.q_norm.weight", {4});
  ExpectRefused(Plan(MixtralConfig(), tensors), StatusCode::kUnsupported,
                "model.layers.0.self_attn.q_norm.weight");
}

TEST(ModelTensors, ABiasThatTheConfigurationDoesNotHaveIsRefused) {
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.0.input_layernorm.bias"}) {
    testing::FakeTensors tensors = MixtralTensors();
    tensors.Add(name, {8});
    ExpectRefused(Plan(MixtralConfig(), tensors), StatusCode::kUnsupported, name);
  }
}

TEST(ModelTensors, AWrongShapeIsNamedBesideTheRightOne) {
  testing::FakeTensors tensors = MixtralTensors();
  tensors.Remove("model.layers.0.self_attn.k_proj.weight");
  tensors.Add("model.layers.0.self_attn.k_proj.weight", {8, 8});
  ExpectRefused(Plan(MixtralConfig(), tensors), StatusCode::kCorruptData, "[4, 8]");
  ExpectRefused(Plan(MixtralConfig(), tensors), StatusCode::kCorruptData, "[8, 8]");
}

TEST(ModelTensors, ATypeThatIsNoWeightIsRefused) {
  testing::FakeTensors tensors = MixtralTensors();
  tensors.Remove("model.layers.0.self_attn.k_proj.weight");
  tensors.Add("model.layers.0.self_attn.k_proj.weight", {4, 8}, DType::kU8);
  ExpectRefused(Plan(MixtralConfig(), tensors), StatusCode::kUnsupported, "k_proj.weight");
}

TEST(ModelTensors, TiedEmbeddingsMayBeStoredTwice) {
  const Status twice = Plan(MixtralConfig("tie_word_embeddings", "true"));
  EXPECT_TRUE(twice.ok()) << twice.ToString();
  testing::FakeTensors tensors = MixtralTensors();
  tensors.Remove("lm_head.weight");
  const Status once = Plan(MixtralConfig("tie_word_embeddings", "true"), tensors);
  EXPECT_TRUE(once.ok()) << once.ToString();
  ExpectRefused(Plan(MixtralConfig(), tensors), StatusCode::kNotFound, "lm_head.weight");
}

}  // namespace
}  // namespace colibri
