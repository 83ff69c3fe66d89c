// What GGUF's keys and tensors together say of a model, in files of several ages.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "model/resolve.h"
#include "support/fake_model.h"

namespace colibri {
namespace {

using Keys = std::vector<std::pair<std::string, MetaValue>>;

// A tiny model's files; `keys` stand behind "<architecture>.".
ModelFiles Gguf(const std::string& architecture, const Keys& keys, testing::FakeTensors tensors) {
  Metadata config("model.gguf");
  config.Set("general.architecture", architecture);
  const Keys common = {
      {"block_count", int64_t{1}},          {"context_length", int64_t{64}},
      {"embedding_length", int64_t{8}},     {"feed_forward_length", int64_t{12}},
      {"attention.head_count", int64_t{2}}, {"attention.layer_norm_rms_epsilon", 1e-5},
  };
  for (const auto* list : {&common, &keys}) {
    for (const auto& [key, value] : *list) config.Set(architecture + "." + key, value);
  }
  tensors.Add("token_embd.weight", {16, 8});
  return {ModelFormat::kGguf,
          "model.gguf",
          std::move(config),
          Metadata(),
          std::make_unique<testing::FakeTensors>(std::move(tensors)),
          "",
          "",
          ""};
}

testing::FakeTensors DenseLayer() {
  testing::FakeTensors tensors;
  tensors.Add("blk.0.ffn_up.weight", {12, 8});
  return tensors;
}
testing::FakeTensors MoeLayer(bool with_selection_bias = false) {
  testing::FakeTensors tensors;
  tensors.Add("blk.0.ffn_gate_inp.weight", {4, 8});
  tensors.Add("blk.0.ffn_down_exps.weight", {4, 8, 12});
  if (with_selection_bias) tensors.Add("blk.0.exp_probs_b.bias", {4});
  return tensors;
}

Result<ModelConfig> Resolve(const ModelFiles& files) {
  COLIBRI_ASSIGN_OR_RETURN(const ArchSpec* spec, FindArchSpec(files));
  return ResolveConfig(ConfigReader(*spec, files), files, Log());
}

std::string FamilyOf(const ModelFiles& files) {
  const auto spec = FindArchSpec(files);
  return spec.ok() ? std::string((*spec)->name) : spec.status().ToString();
}

void ExpectRefused(const ModelFiles& files, std::string_view part) {
  const auto config = Resolve(files);
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().message().find(part), std::string::npos) << config.status().ToString();
}

const Keys kExperts = {{"expert_count", int64_t{4}}, {"expert_used_count", int64_t{2}}};

Keys With(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

TEST(GgufFamily, ALlamaIsAMixtralWhereItHasExperts) {
  EXPECT_EQ(FamilyOf(Gguf("llama", {}, DenseLayer())), "llama");
  EXPECT_EQ(FamilyOf(Gguf("llama", {{"expert_count", int64_t{0}}}, DenseLayer())), "llama");
  EXPECT_EQ(FamilyOf(Gguf("llama", kExperts, MoeLayer())), "mixtral");
}

TEST(GgufFamily, DeepSeeksGenerationsPartByTheirGatingOrTheirBias) {
  EXPECT_EQ(FamilyOf(Gguf("deepseek2", {{"expert_gating_func", int64_t{1}}}, MoeLayer())),
            "deepseek_v2");
  EXPECT_EQ(FamilyOf(Gguf("deepseek2", {{"expert_gating_func", int64_t{2}}}, MoeLayer())),
            "deepseek_v3");
  EXPECT_EQ(FamilyOf(Gguf("deepseek2", {}, MoeLayer())), "deepseek_v2");
  EXPECT_EQ(FamilyOf(Gguf("deepseek2", {}, MoeLayer(true))), "deepseek_v3");
}

TEST(GgufConfig, MoreThanOneGroupLimitsTheRoutingOfDeepSeekV2) {
  const auto config = Resolve(Gguf("deepseek2",
                                   With(kExperts, {{"attention.kv_lora_rank", int64_t{4}},
                                                   {"attention.key_length", int64_t{6}},
                                                   {"attention.value_length", int64_t{4}},
                                                   {"rope.dimension_count", int64_t{2}},
                                                   {"expert_group_count", int64_t{2}},
                                                   {"expert_group_used_count", int64_t{1}}}),
                                   MoeLayer()));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->layers[0].ffn.router.n_groups, 2);
  EXPECT_EQ(config->layers[0].ffn.router.n_selected_groups, 1);
  EXPECT_EQ(config->layers[0].ffn.router.group_score, GroupScore::kMax);
}

TEST(GgufConfig, AFactorWithoutATypeIsLinear) {
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    const auto config = Resolve(Gguf("llama", {{key, 4.0}}, DenseLayer()));
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->ropes.at(0).scaling, RopeScaling::kLinear) << key;
    EXPECT_EQ(config->ropes.at(0).factor, 4.0) << key;
  }
  const auto plain = Resolve(Gguf("llama", {}, DenseLayer()));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->ropes.at(0).scaling, RopeScaling::kNone);
}

TEST(GgufConfig, AnUnknownScalingTypeOrGatingFunctionIsRefused) {
  ExpectRefused(Gguf("llama", {{"rope.scaling.type", std::string("xyz")}}, DenseLayer()), "xyz");
  ExpectRefused(Gguf("llama", With(kExperts, {{"expert_gating_func", int64_t{9}}}), MoeLayer()),
                "llama.expert_gating_func");
}

// Older converters leave the key out, and softmax would be wrong for these families.
TEST(GgufConfig, AMissingGatingFunctionIsThatOfTheFamilyAndIsSaid) {
  const Keys keys = With(kExperts, {{"attention.kv_lora_rank", int64_t{4}},
                                    {"attention.key_length", int64_t{6}},
                                    {"attention.value_length", int64_t{4}},
                                    {"rope.dimension_count", int64_t{2}}});
  for (const bool missing : {false, true}) {
    const ModelFiles files =
        Gguf("deepseek2", missing ? keys : With(keys, {{"expert_gating_func", int64_t{2}}}),
             MoeLayer(/*with_selection_bias=*/true));
    std::string warnings;
    const Log log([&](LogLevel level, std::string_view line) {
      if (level == LogLevel::kWarning) warnings += line;
    });
    const auto spec = FindArchSpec(files);
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    const auto config = ResolveConfig(ConfigReader(**spec, files), files, log);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->layers[0].ffn.router.score, RouterScore::kSigmoid);
    EXPECT_EQ(warnings.find("model.gguf: deepseek2.expert_gating_func") != std::string::npos,
              missing)
        << warnings;
  }
}

TEST(GgufConfig, ExpertsPerTokenAndLayersKeepWithinTheirBounds) {
  for (const int64_t k : {0, 5, 1000000}) {
    ExpectRefused(
        Gguf("llama", {{"expert_count", int64_t{4}}, {"expert_used_count", k}}, MoeLayer()),
        "between 1 and");
  }
  ExpectRefused(Gguf("llama", {{"block_count", int64_t{100000}}}, DenseLayer()),
                "llama.block_count is 100000, must be");
  ExpectRefused(Gguf("llama", {{"block_count", int64_t{2}}}, DenseLayer()), "blk.1.ffn_up.weight");
}

TEST(GgufConfig, RoutersOf896And512ExpertsAreTaken) {
  struct Case {
    int64_t n_experts, n_selected;
  };
  for (const Case& c : {Case{896, 16}, Case{512, 22}}) {
    const auto config = Resolve(Gguf(
        "llama", {{"expert_count", c.n_experts}, {"expert_used_count", c.n_selected}}, MoeLayer()));
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->layers[0].ffn.router.n_experts, c.n_experts);
    EXPECT_EQ(config->layers[0].ffn.router.n_selected, c.n_selected);
  }
}

}  // namespace
}  // namespace colibri
