#include "model/config_reader.h"
#include "model/registry.h"

namespace colibri {

ArchSpec GptOssSpec() {
  return {
      .name = "gpt_oss",
      .hf_classes = {"GptOssForCausalLM"},
      .gguf_architectures = {"gpt-oss"},
      .default_theta = 150000,
      .hf_model_type = "gpt_oss",
      .keys =
          {
              {Field::kAttentionBias, {"attention_bias"}, "", 1},
              {Field::kExpertIntermediate, {"intermediate_size"}, "expert_feed_forward_length", {}},
              {Field::kUseSlidingWindow, {}, "", 1},
              {Field::kSlidingWindow, {"sliding_window"}, "attention.sliding_window", 128},
          },
      .hf_defaults = {{Field::kVocabSize, 201088},
                      {Field::kHidden, 2880},
                      {Field::kLayers, 36},
                      {Field::kHeads, 64},
                      {Field::kKvHeads, 8},
                      {Field::kHeadDim, 64},
                      {Field::kMaxPositions, 131072},
                      {Field::kNormEps, 1e-5},
                      {Field::kExperts, 128},
                      {Field::kExpertsPerToken, 4},
                      {Field::kExpertIntermediate, 2880},
                      {Field::kSlidingWindow, 128}},
      .tensors =
          {
              {Role::kFfnNorm, "model.layers.{l}.post_attention_layernorm.weight",
               "blk.{l}.post_attention_norm.weight"},
              {Role::kRouter, "model.layers.{l}.mlp.router.weight", "blk.{l}.ffn_gate_inp.weight"},
              {Role::kExpertGateUp, "model.layers.{l}.mlp.experts.gate_up_proj", ""},
              {Role::kExpertDownAll, "model.layers.{l}.mlp.experts.down_proj", ""},
              {Role::kExpertGateUpBias, "model.layers.{l}.mlp.experts.gate_up_proj_bias", ""},
              {Role::kExpertDownBias, "model.layers.{l}.mlp.experts.down_proj_bias",
               "blk.{l}.ffn_down_exps.bias"},
          },
      // GGUF does not hold YaRN's truncate; the released models have it off.
      .attention = {.sinks = true,
                    .window = WindowRule::kEvenLayerTypes,
                    .yarn_truncate = false,
                    .hf_rope_default = RopeSpec{.scaling = RopeScaling::kYarn,
                                                .factor = 32,
                                                .original_positions = 4096,
                                                .truncate = false}},
      .router = {.score = RouterScore::kLogit, .softmax_selected = true, .renormalize = false},
      .experts = {.layers = MoeLayerRule::kAll,
                  .hf_fused = FusedExperts::kInterleavedColumns,
                  .activation = GatedActivation::kSwigluOai},
  };
}

}  // namespace colibri
