#include "cli/plan_json.h"

#include <gtest/gtest.h>

namespace colibri::cli {
namespace {

TEST(LayerJson, SaysWhatIsInForceAndNothingElse) {
  LayerPlan layer;
  layer.attention.n_heads = 4;
  layer.attention.rope = 0;
  layer.ffn.dense_intermediate = 64;
  const nlohmann::ordered_json json = LayerJson(layer);
  EXPECT_EQ(json["attention"]["mixer"], "gqa");
  EXPECT_EQ(json["attention"]["rope"], 0);
  EXPECT_EQ(json["ffn"]["kind"], "dense");
  EXPECT_EQ(json["ffn"]["intermediate"], 64);
  for (const char* key : {"window", "sinks", "qk_norm", "qkv_clip", "kv_lora_rank"}) {
    EXPECT_FALSE(json["attention"].contains(key)) << key;
  }
  EXPECT_FALSE(json["ffn"].contains("n_experts"));
}

TEST(LayerJson, NamesEveryAxisOfAnUnusualLayer) {
  LayerPlan layer;
  layer.attention.kind = MixerKind::kMla;
  layer.attention.kv_lora_rank = 16;
  layer.attention.window = 128;
  layer.attention.has_sinks = true;
  layer.attention.qk_norm = QkNorm::kFull;
  layer.attention.qkv_clip = 8;
  layer.ffn.activation.kind = GatedActivation::kSwigluOai;
  layer.ffn.router.n_experts = 8;
  layer.ffn.router.n_selected = 2;
  layer.ffn.router.score = RouterScore::kSigmoid;
  layer.ffn.router.n_groups = 4;
  layer.ffn.router.group_score = GroupScore::kTopTwo;
  layer.ffn.router.scale = 2.5f;
  layer.ffn.shared_intermediate = 32;
  const nlohmann::ordered_json json = LayerJson(layer);
  EXPECT_EQ(json["attention"]["mixer"], "mla");
  EXPECT_EQ(json["attention"]["rope"], "none");
  EXPECT_EQ(json["attention"]["window"], 128);
  EXPECT_EQ(json["attention"]["sinks"], true);
  EXPECT_EQ(json["attention"]["qk_norm"], "full");
  EXPECT_EQ(json["ffn"]["score"], "sigmoid");
  EXPECT_EQ(json["ffn"]["group_score"], "top_two");
  EXPECT_EQ(json["ffn"]["scale"], 2.5);
  EXPECT_EQ(json["ffn"]["activation"], "swiglu_oai");
  EXPECT_EQ(json["ffn"]["shared_intermediate"], 32);
}

TEST(ConfigJson, PrintsFloatsAsTheyAreWritten) {
  ModelConfig config;
  config.norm_eps = 1e-6f;
  EXPECT_EQ(ConfigJson(config)["norm_eps"].dump(), "1e-06");
}

TEST(OneLine, JoinsKeysAndValues) {
  EXPECT_EQ(OneLine({{"a", 1}, {"b", "x"}, {"c", true}}), "a 1, b x, c true");
}

}  // namespace
}  // namespace colibri::cli
