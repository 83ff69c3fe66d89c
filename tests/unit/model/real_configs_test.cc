// Configurations of released models, as hubs hold them, and the plans that they must give.
#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"
#include "model/resolve.h"
#include "support/fake_model.h"

namespace colibri {
namespace {

Result<ModelConfig> Resolve(const std::string& json) {
  COLIBRI_ASSIGN_OR_RETURN(const ModelFiles files, testing::FakeFolder(json));
  COLIBRI_ASSIGN_OR_RETURN(const ArchSpec* spec, FindArchSpec(files));
  return ResolveConfig(ConfigReader(*spec, files), files, Log());
}

ModelConfig MustResolve(const std::string& json) {
  auto config = Resolve(json);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? std::move(*config) : ModelConfig();
}

struct Sizes {
  int32_t hidden, n_layers, vocab, heads, kv_heads, head_dim;
};
void ExpectSizes(const ModelConfig& config, const Sizes& sizes) {
  EXPECT_EQ(config.hidden, sizes.hidden);
  EXPECT_EQ(config.n_layers, sizes.n_layers);
  EXPECT_EQ(config.vocab_size, sizes.vocab);
  ASSERT_EQ(config.layers.size(), static_cast<size_t>(sizes.n_layers));
  for (const LayerPlan& layer : config.layers) {
    EXPECT_EQ(layer.attention.n_heads, sizes.heads);
    EXPECT_EQ(layer.attention.n_kv_heads, sizes.kv_heads);
    EXPECT_EQ(layer.attention.head_dim, sizes.head_dim);
  }
}

struct Moe {
  int32_t n_dense, n_experts, n_selected, expert_size, shared_size;
  bool renormalize;
  float scale;
};
// The first n_dense layers are dense, all others have experts.
void ExpectMoe(const ModelConfig& config, const Moe& moe) {
  for (size_t l = 0; l < config.layers.size(); ++l) {
    const FfnPlan& ffn = config.layers[l].ffn;
    ASSERT_EQ(ffn.is_moe(), l >= static_cast<size_t>(moe.n_dense)) << l;
    if (!ffn.is_moe()) continue;
    EXPECT_EQ(ffn.router.n_experts, moe.n_experts) << l;
    EXPECT_EQ(ffn.router.n_selected, moe.n_selected) << l;
    EXPECT_EQ(ffn.expert_intermediate, moe.expert_size) << l;
    EXPECT_EQ(ffn.shared_intermediate, moe.shared_size) << l;
    EXPECT_EQ(ffn.router.renormalize, moe.renormalize) << l;
    EXPECT_FLOAT_EQ(ffn.router.scale, moe.scale) << l;
  }
}

std::string Repeated(std::string_view value, int n) {
  std::string list = "[";
  for (int i = 0; i < n; ++i) list += StrCat(i > 0 ? "," : "", value);
  return list + "]";
}

TEST(RealConfig, Mixtral8x7B) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["MixtralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
    "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32,
    "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "output_router_logits": false, "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000})");
  ExpectSizes(config, {4096, 32, 32000, 32, 8, 128});
  ExpectMoe(config, {0, 8, 2, 14336, 0, true, 1});
  EXPECT_EQ(config.layers[0].attention.window, 0);
  EXPECT_EQ(config.ropes.at(0).theta, 1e6);
  EXPECT_EQ(config.eos_token_ids, std::vector<int32_t>{2});
}

TEST(RealConfig, Qwen3Moe30B) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "bos_token_id": 151643,
    "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960,
    "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe",
    "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
    "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": null,
    "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
    "use_sliding_window": false, "vocab_size": 151936})");
  ExpectSizes(config, {2048, 48, 151936, 32, 4, 128});
  ExpectMoe(config, {0, 128, 8, 768, 0, true, 1});
  EXPECT_EQ(config.layers[0].attention.qk_norm, QkNorm::kPerHead);
}

TEST(RealConfig, Qwen2Moe57B) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["Qwen2MoeForCausalLM"], "decoder_sparse_step": 1, "hidden_act": "silu",
    "hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 131072,
    "max_window_layers": 28, "model_type": "qwen2_moe", "moe_intermediate_size": 2560,
    "norm_topk_prob": false, "num_attention_heads": 28, "num_experts": 64,
    "num_experts_per_tok": 8, "num_hidden_layers": 28, "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "shared_expert_intermediate_size": 20480,
    "sliding_window": 131072, "tie_word_embeddings": false, "use_sliding_window": false,
    "vocab_size": 151936})");
  ExpectSizes(config, {3584, 28, 151936, 28, 4, 128});
  ExpectMoe(config, {0, 64, 8, 2560, 20480, false, 1});
  EXPECT_TRUE(config.layers[0].ffn.shared_gate);
  EXPECT_EQ(config.layers[0].attention.window, 0);
}

TEST(RealConfig, Olmoe1B7B) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["OlmoeForCausalLM"], "attention_bias": false, "clip_qkv": null,
    "eos_token_id": 50279, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 1024,
    "max_position_embeddings": 4096, "model_type": "olmoe", "norm_topk_prob": false,
    "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
    "num_hidden_layers": 16, "num_key_value_heads": 16, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false,
    "vocab_size": 50304})");
  ExpectSizes(config, {2048, 16, 50304, 16, 16, 128});
  ExpectMoe(config, {0, 64, 8, 1024, 0, false, 1});
  EXPECT_EQ(config.layers[0].attention.qk_norm, QkNorm::kFull);
  EXPECT_EQ(config.layers[0].attention.qkv_clip, 0);
}

TEST(RealConfig, DeepSeekV2Lite) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false,
    "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
    "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "model_type": "deepseek_v2", "moe_intermediate_size": 1408, "moe_layer_freq": 1,
    "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false,
    "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27,
    "num_key_value_heads": 16, "q_lora_rank": null, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
      "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 1.0, "scoring_func": "softmax",
    "tie_word_embeddings": false, "topk_group": 1, "topk_method": "greedy", "v_head_dim": 128,
    "vocab_size": 102400})");
  ExpectSizes(config, {2048, 27, 102400, 16, 1, 192});
  ExpectMoe(config, {1, 64, 6, 1408, 2816, false, 1});
  EXPECT_EQ(config.layers[0].ffn.dense_intermediate, 10944);
  const AttentionPlan& attention = config.layers[0].attention;
  EXPECT_EQ(attention.q_lora_rank, 0);
  EXPECT_EQ(attention.kv_lora_rank, 512);
  // (0.0707 ln 40 + 1)^2 / sqrt(192)
  EXPECT_NEAR(attention.scale, 0.1147213, 1e-6);
  EXPECT_EQ(config.ropes.at(0).scaling, RopeScaling::kYarn);
  EXPECT_EQ(config.ropes.at(0).attention_factor, 1);
}

// DeepSeek-V3's own numbers; Kimi K2 and Moonlight change some of them.
std::string DeepSeekV3(std::string_view more) {
  return StrCat(R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
    "hidden_act": "silu", "kv_lora_rank": 512, "model_type": "deepseek_v3", "moe_layer_freq": 1,
    "norm_topk_prob": true, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_method": "noaux_tc",
    "v_head_dim": 128, )",
                more, "}");
}
constexpr std::string_view kV3Sizes = R"(
    "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432,
    "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "n_group": 8,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "topk_group": 4, "vocab_size": 129280)";

TEST(RealConfig, DeepSeekV3InBf16) {
  const ModelConfig config = MustResolve(DeepSeekV3(kV3Sizes));
  ExpectSizes(config, {7168, 61, 129280, 128, 1, 192});
  ExpectMoe(config, {3, 256, 8, 2048, 2048, true, 2.5});
  const RouterSpec& router = config.layers[3].ffn.router;
  EXPECT_EQ(router.score, RouterScore::kSigmoid);
  EXPECT_EQ(router.n_groups, 8);
  EXPECT_EQ(router.n_selected_groups, 4);
  EXPECT_EQ(router.group_score, GroupScore::kTopTwo);
  EXPECT_EQ(config.layers[0].attention.q_lora_rank, 1536);
}

TEST(RealConfig, DeepSeekV3InFp8IsRefusedByItsMethod) {
  const auto config = Resolve(
      DeepSeekV3(StrCat(kV3Sizes, R"(, "quantization_config": {"activation_scheme": "dynamic",
      "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]})")));
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().message().find("fp8"), std::string::npos);
}

TEST(RealConfig, KimiK2) {
  const ModelConfig config = MustResolve(DeepSeekV3(R"(
    "first_k_dense_replace": 1, "hidden_size": 7168, "intermediate_size": 18432,
    "max_position_embeddings": 131072, "moe_intermediate_size": 2048, "n_group": 1,
    "n_routed_experts": 384, "n_shared_experts": 1, "num_attention_heads": 64,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64,
    "num_nextn_predict_layers": 0, "q_lora_rank": 1536, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 50000.0, "routed_scaling_factor": 2.827, "topk_group": 1,
    "vocab_size": 163840)"));
  ExpectSizes(config, {7168, 61, 163840, 64, 1, 192});
  ExpectMoe(config, {1, 384, 8, 2048, 2048, true, 2.827f});
  EXPECT_EQ(config.ropes.at(0).beta_fast, 1);
}

TEST(RealConfig, Moonlight16B) {
  const ModelConfig config = MustResolve(DeepSeekV3(R"(
    "first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 11264,
    "max_position_embeddings": 8192, "moe_intermediate_size": 1408, "n_group": 1,
    "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
    "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
    "num_nextn_predict_layers": 0, "q_lora_rank": null, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 50000.0, "routed_scaling_factor": 2.446,
    "topk_group": 1, "vocab_size": 163840)"));
  ExpectSizes(config, {2048, 27, 163840, 16, 1, 192});
  ExpectMoe(config, {1, 64, 6, 1408, 2816, true, 2.446f});
  EXPECT_FLOAT_EQ(config.layers[0].attention.scale, 1 / std::sqrt(192.0f));
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5f);
}

TEST(RealConfig, GptOss20B) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["GptOssForCausalLM"], "attention_bias": true, "eos_token_id": 200002,
    "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
    "initial_context_length": 4096, "intermediate_size": 2880,
    "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64,
    "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
    "num_local_experts": 32,
    "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn",
      "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
      "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
    "rope_theta": 150000, "sliding_window": 128, "swiglu_limit": 7.0,
    "tie_word_embeddings": false, "vocab_size": 201088})");
  ExpectSizes(config, {2880, 24, 201088, 64, 8, 64});
  ExpectMoe(config, {0, 32, 4, 2880, 0, false, 1});
  EXPECT_EQ(config.layers[0].attention.window, 128);
  EXPECT_EQ(config.layers[1].attention.window, 0);
  EXPECT_TRUE(config.layers[0].attention.has_sinks);
  EXPECT_FALSE(config.ropes.at(0).truncate);
  EXPECT_EQ(config.layers[0].ffn.activation.kind, GatedActivation::kSwigluOai);
  EXPECT_TRUE(config.layers[0].ffn.router.softmax_selected);
}

TEST(RealConfig, Glm45Air) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["Glm4MoeForCausalLM"], "attention_bias": true,
    "eos_token_id": [151329, 151336, 151338], "first_k_dense_replace": 1, "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 10944,
    "max_position_embeddings": 131072, "model_type": "glm4_moe", "moe_intermediate_size": 1408,
    "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true,
    "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46,
    "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
    "routed_scaling_factor": 1.0, "tie_word_embeddings": false, "topk_group": 1,
    "use_qk_norm": false, "vocab_size": 151552})");
  ExpectSizes(config, {4096, 46, 151552, 96, 8, 128});
  ExpectMoe(config, {1, 128, 8, 1408, 1408, true, 1});
  EXPECT_EQ(config.ropes.at(0).n_rotary, 64);
  EXPECT_EQ(config.layers[0].attention.qk_norm, QkNorm::kNone);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int32_t>{151329, 151336, 151338}));
}

TEST(RealConfig, Granite31Moe1B) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["GraniteMoeForCausalLM"], "attention_bias": false,
    "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "hidden_act": "silu",
    "hidden_size": 1024, "intermediate_size": 512, "logits_scaling": 6.0,
    "max_position_embeddings": 131072, "model_type": "granitemoe", "num_attention_heads": 16,
    "num_experts_per_tok": 8, "num_hidden_layers": 24, "num_key_value_heads": 8,
    "num_local_experts": 32, "residual_multiplier": 0.22, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 1500000, "tie_word_embeddings": true,
    "vocab_size": 49155})");
  ExpectSizes(config, {1024, 24, 49155, 16, 8, 64});
  ExpectMoe(config, {0, 32, 8, 512, 0, false, 1});
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FLOAT_EQ(config.layers[0].attention.scale, 0.015625f);
  EXPECT_FLOAT_EQ(config.embedding_scale, 12);
  EXPECT_FLOAT_EQ(config.residual_scale, 0.22f);
  EXPECT_FLOAT_EQ(config.logit_scale, 1 / 6.0f);
}

TEST(RealConfig, Phi35Moe) {
  const ModelConfig config =
      MustResolve(StrCat(R"({
    "architectures": ["PhiMoEForCausalLM"], "attention_bias": true, "hidden_act": "silu",
    "hidden_size": 4096, "input_jitter_noise": 0.01, "intermediate_size": 6400,
    "lm_head_bias": true, "max_position_embeddings": 131072, "model_type": "phimoe",
    "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "num_local_experts": 16,
    "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05,
    "rope_scaling": {"long_factor": )",
                         Repeated("1.5", 64), R"(, "long_mscale": 1.243163121016122,
      "original_max_position_embeddings": 4096, "short_factor": )",
                         Repeated("1.0", 64), R"(, "short_mscale": 1.25, "type": "longrope"},
    "rope_theta": 10000.0, "router_jitter_noise": 0.01, "sliding_window": 131072,
    "tie_word_embeddings": false, "vocab_size": 32064})"));
  ExpectSizes(config, {4096, 32, 32064, 32, 8, 128});
  ExpectMoe(config, {0, 16, 2, 6400, 0, false, 1});
  EXPECT_EQ(config.norm, NormKind::kLayer);
  const RopeSpec& rope = config.ropes.at(0);
  EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(rope.original_positions, 4096);
  EXPECT_FLOAT_EQ(RopeAttentionFactor(rope, 4096), 1.25f);
  EXPECT_FLOAT_EQ(RopeAttentionFactor(rope, 131072), 1.243163121f);
}

TEST(RealConfig, DotsLlm1) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["Dots1ForCausalLM"], "attention_bias": false, "first_k_dense_replace": 1,
    "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 10944,
    "max_position_embeddings": 32768, "max_window_layers": 62, "model_type": "dots1",
    "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 128,
    "n_shared_experts": 2, "norm_topk_prob": true, "num_attention_heads": 32,
    "num_experts_per_tok": 6, "num_hidden_layers": 62, "num_key_value_heads": 32,
    "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000000,
    "routed_scaling_factor": 2.5, "scoring_func": "noaux_tc", "sliding_window": null,
    "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064})");
  ExpectSizes(config, {4096, 62, 152064, 32, 32, 128});
  ExpectMoe(config, {1, 128, 6, 1408, 2816, true, 2.5});
  EXPECT_EQ(config.layers[61].attention.window, 0);
}

TEST(RealConfig, Ernie45Moe21B) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["Ernie4_5_MoeForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 2560, "intermediate_size": 12288,
    "max_position_embeddings": 131072, "model_type": "ernie4_5_moe", "moe_intermediate_size": 1536,
    "moe_k": 6, "moe_layer_end_index": 27, "moe_layer_interval": 1, "moe_layer_start_index": 1,
    "moe_num_experts": 64, "moe_num_shared_experts": 2, "num_attention_heads": 20,
    "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 500000.0, "tie_word_embeddings": true,
    "use_bias": false, "vocab_size": 103424})");
  ExpectSizes(config, {2560, 28, 103424, 20, 4, 128});
  ExpectMoe(config, {1, 64, 6, 1536, 3072, true, 1});
  EXPECT_EQ(config.ropes.at(0).layout, RopeLayout::kInterleaved);
}

TEST(RealConfig, HunyuanA13B) {
  const ModelConfig config =
      MustResolve(StrCat(R"({
    "architectures": ["HunYuanMoEV1ForCausalLM"], "attention_bias": false,
    "attention_head_dim": 128, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 3072, "max_position_embeddings": 32768, "model_type": "hunyuan_v1_moe",
    "moe_intermediate_size": )",
                         Repeated("3072", 32), R"(, "moe_topk": )", Repeated("8", 32),
                         R"(, "num_shared_expert": )", Repeated("1", 32), R"(,
    "num_attention_heads": 32, "num_experts": 64, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
    "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
      "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"},
    "rope_theta": 10000.0, "tie_word_embeddings": true, "use_qk_norm": true,
    "vocab_size": 128167})"));
  ExpectSizes(config, {4096, 32, 128167, 32, 8, 128});
  ExpectMoe(config, {0, 64, 8, 3072, 3072, true, 1});
  EXPECT_TRUE(config.layers[0].attention.qk_norm_after_rope);
  EXPECT_EQ(config.ropes.at(0).scaling, RopeScaling::kDynamic);
  EXPECT_EQ(config.ropes.at(0).alpha, 1000);
}

TEST(RealConfig, MiniMaxM2InBf16) {
  const ModelConfig config = MustResolve(R"({
    "architectures": ["MiniMaxM2ForCausalLM"], "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 3072, "intermediate_size": 1536, "max_position_embeddings": 196608,
    "model_type": "minimax_m2", "mtp_transformer_layers": 1, "num_attention_heads": 48,
    "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8,
    "num_local_experts": 256, "num_mtp_modules": 3, "qk_norm_type": "per_layer",
    "rms_norm_eps": 1e-06, "rope_theta": 5000000, "rotary_dim": 64, "scoring_func": "sigmoid",
    "shared_intermediate_size": 0, "tie_word_embeddings": false, "use_mtp": true,
    "use_qk_norm": true, "use_routing_bias": true, "vocab_size": 200064})");
  ExpectSizes(config, {3072, 62, 200064, 48, 8, 128});
  ExpectMoe(config, {0, 256, 8, 1536, 0, true, 1});
  EXPECT_EQ(config.ropes.at(0).n_rotary, 64);
  EXPECT_EQ(config.layers[0].attention.qk_norm, QkNorm::kFull);
}

// What transformers' configuration classes take where a file says nothing.
TEST(DefaultConfig, MixtralWithoutAnyKeyHasTheSizesOf8x7B) {
  const ModelConfig config = MustResolve(R"({"architectures": ["MixtralForCausalLM"]})");
  ExpectSizes(config, {4096, 32, 32000, 32, 8, 128});
  ExpectMoe(config, {0, 8, 2, 14336, 0, true, 1});
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_EQ(config.ropes.at(0).theta, 1e6);
}

TEST(DefaultConfig, GptOssWithoutARopeDictionaryIsScaled) {
  const ModelConfig config = MustResolve(R"({"architectures": ["GptOssForCausalLM"]})");
  ExpectSizes(config, {2880, 36, 201088, 64, 8, 64});
  const RopeSpec& rope = config.ropes.at(0);
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.factor, 32);
  EXPECT_EQ(rope.original_positions, 4096);
  EXPECT_EQ(rope.theta, 150000);
  EXPECT_FALSE(rope.truncate);
}

TEST(DefaultConfig, DeepSeekV3WithoutAnyKeyHasItsGroupsAndDenseLayers) {
  const ModelConfig config = MustResolve(R"({"architectures": ["DeepseekV3ForCausalLM"]})");
  ExpectSizes(config, {7168, 61, 129280, 128, 1, 192});
  ExpectMoe(config, {3, 256, 8, 2048, 2048, true, 2.5});
  EXPECT_EQ(config.layers[3].ffn.router.n_groups, 8);
}

TEST(DefaultConfig, NullIsNotTheSameAsNoKey) {
  const ModelConfig absent = MustResolve(R"({"architectures": ["DeepseekV3ForCausalLM"]})");
  const ModelConfig null =
      MustResolve(R"({"architectures": ["DeepseekV3ForCausalLM"], "q_lora_rank": null})");
  EXPECT_EQ(absent.layers[0].attention.q_lora_rank, 1536);
  EXPECT_EQ(null.layers[0].attention.q_lora_rank, 0);
}

}  // namespace
}  // namespace colibri
