// Hunyuan-A13B: QK norm behind the rotation, one shared expert of the experts' own size.
#include "base/strings.h"
#include "model/config_reader.h"
#include "model/registry.h"

namespace colibri {
namespace {

// The number of experts a token may be a list with an entry a layer.
Status Finish(const ConfigReader& reader, ModelConfig& config) {
  if (reader.gguf()) return Status();
  COLIBRI_ASSIGN_OR_RETURN(const auto topk, reader.metadata().GetInts("moe_topk"));
  if (!topk || topk->size() <= 1) return Status();
  if (topk->size() < config.layers.size()) {
    return reader.UnknownValue("moe_topk", StrCat("a list of ", topk->size()),
                               StrCat("a list of ", config.layers.size(), ", one a layer"));
  }
  for (size_t l = 0; l < config.layers.size(); ++l)
    config.layers[l].ffn.router.n_selected = static_cast<int32_t>((*topk)[l]);
  return Status();
}

}  // namespace

ArchSpec HunyuanMoeSpec() {
  return {
      .name = "hunyuan_moe",
      .hf_classes = {"HunYuanMoEV1ForCausalLM"},
      .gguf_architectures = {"hunyuan-moe"},
      .keys =
          {
              {Field::kExpertsPerToken, {"moe_topk"}, "expert_used_count", {}},
              {Field::kExpertIntermediate, {"intermediate_size"}, "expert_feed_forward_length", {}},
              {Field::kSharedIntermediate,
               {"intermediate_size"},
               "expert_shared_feed_forward_length",
               0},
          },
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
      .finish = Finish,
  };
}

}  // namespace colibri
