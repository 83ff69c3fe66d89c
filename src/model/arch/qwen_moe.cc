// Qwen1.5-MoE and Qwen2-MoE (with a sigmoid-gated shared expert), Qwen3-MoE.
#include "model/registry.h"

namespace colibri {

ArchSpec Qwen2MoeSpec() {
  return {
      .name = "qwen2_moe",
      .hf_classes = {"Qwen2MoeForCausalLM"},
      .gguf_architectures = {"qwen2moe"},
      .hf_model_type = "qwen2_moe",
      .keys = {{Field::kAttentionBias, {"qkv_bias"}, "", 1},
               {Field::kSlidingWindow, {"sliding_window"}, "", 4096}},
      .hf_defaults = {{Field::kVocabSize, 151936},
                      {Field::kHidden, 2048},
                      {Field::kLayers, 24},
                      {Field::kHeads, 16},
                      {Field::kKvHeads, 16},
                      {Field::kMaxPositions, 32768},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 5632},
                      {Field::kExperts, 60},
                      {Field::kExpertsPerToken, 4},
                      {Field::kExpertIntermediate, 1408},
                      {Field::kSharedIntermediate, 5632},
                      {Field::kSlidingWindow, 4096}},
      .tensors =
          {
              {Role::kSharedGate, "model.layers.{l}.mlp.shared_expert.gate_proj.weight",
               "blk.{l}.ffn_gate_shexp.weight"},
              {Role::kSharedUp, "model.layers.{l}.mlp.shared_expert.up_proj.weight",
               "blk.{l}.ffn_up_shexp.weight"},
              {Role::kSharedDown, "model.layers.{l}.mlp.shared_expert.down_proj.weight",
               "blk.{l}.ffn_down_shexp.weight"},
              {Role::kSharedRouter, "model.layers.{l}.mlp.shared_expert_gate.weight",
               "blk.{l}.ffn_gate_inp_shexp.weight"},
          },
      .attention = {.output_bias = false, .window = WindowRule::kQwen2MoeDefault},
      .experts = {.layers = MoeLayerRule::kSparseStep,
                  .shared_gate = true,
                  .shared_intermediate_is_per_expert = false},
  };
}

ArchSpec Qwen3MoeSpec() {
  return {
      .name = "qwen3_moe",
      .hf_classes = {"Qwen3MoeForCausalLM"},
      .gguf_architectures = {"qwen3moe"},
      .hf_model_type = "qwen3_moe",
      .keys =
          {
              // Every released model of this architecture renormalises; GGUF has no key for it.
              {Field::kRenormalize, {"norm_topk_prob"}, "expert_weights_norm", 0, 1},
              {Field::kSlidingWindow, {"sliding_window"}, "", 4096},
          },
      .hf_defaults = {{Field::kVocabSize, 151936},
                      {Field::kHidden, 2048},
                      {Field::kLayers, 24},
                      {Field::kHeads, 32},
                      {Field::kKvHeads, 4},
                      {Field::kMaxPositions, 32768},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 6144},
                      {Field::kExperts, 128},
                      {Field::kExpertsPerToken, 8},
                      {Field::kExpertIntermediate, 768},
                      {Field::kSlidingWindow, 4096}},
      .attention = {.qk_norm = QkNorm::kPerHead, .window = WindowRule::kAllLayers},
      .experts = {.layers = MoeLayerRule::kSparseStep},
  };
}

}  // namespace colibri
