// Hunyuan-A13B: QK norm behind the rotation, one shared expert of the experts' own size.
#include "model/registry.h"

namespace colibri {
ArchSpec HunyuanMoeSpec() {
  return {
      .name = "hunyuan_moe",
      .hf_classes = {"HunYuanMoEV1ForCausalLM"},
      .gguf_architectures = {"hunyuan-moe"},
      .hf_model_type = "hunyuan_v1_moe",
      .keys =
          {
              {Field::kExpertsPerToken,
               {"moe_topk", "num_experts_per_tok"},
               "expert_used_count",
               {}},
              {Field::kExpertIntermediate, {"intermediate_size"}, "expert_feed_forward_length", {}},
              {Field::kSharedIntermediate,
               {"intermediate_size"},
               "expert_shared_feed_forward_length",
               0},
          },
      .hf_defaults = {{Field::kVocabSize, 290943},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kMaxPositions, 2048},
                      {Field::kNormEps, 1e-5},
                      {Field::kExperts, 1},
                      {Field::kExpertsPerToken, 1},
                      {Field::kExpertIntermediate, 11008},
                      {Field::kSharedIntermediate, 11008}},
      .tensors =
          {
              {Role::kQNorm, "model.layers.{l}.self_attn.query_layernorm.weight",
               "blk.{l}.attn_q_norm.weight"},
              {Role::kKNorm, "model.layers.{l}.self_attn.key_layernorm.weight",
               "blk.{l}.attn_k_norm.weight"},
              {Role::kRouter, "model.layers.{l}.mlp.gate.wg.weight", "blk.{l}.ffn_gate_inp.weight"},
              {Role::kSharedGate, "model.layers.{l}.mlp.shared_mlp.gate_proj.weight",
               "blk.{l}.ffn_gate_shexp.weight"},
              {Role::kSharedUp, "model.layers.{l}.mlp.shared_mlp.up_proj.weight",
               "blk.{l}.ffn_up_shexp.weight"},
              {Role::kSharedDown, "model.layers.{l}.mlp.shared_mlp.down_proj.weight",
               "blk.{l}.ffn_down_shexp.weight"},
          },
      .attention = {.qk_norm = QkNorm::kPerHead, .qk_norm_after_rope = true},
      .router = {.score = RouterScore::kSoftmax, .renormalize = true},
      .experts = {.layers = MoeLayerRule::kAll, .shared_intermediate_is_per_expert = false},
  };
}

}  // namespace colibri
