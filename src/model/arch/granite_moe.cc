#include "model/config_reader.h"
#include "model/registry.h"

namespace colibri {
namespace {

// Both forms hold the divisor of the logits.
Status Finish(const ConfigReader& reader, ModelConfig& config) {
  if (config.logit_scale == 0)
    return reader.UnknownValue("logits_scaling", "0", "a number other than 0");
  config.logit_scale = 1.0f / config.logit_scale;
  return Status();
}

}  // namespace

ArchSpec GraniteMoeSpec() {
  return {
      .name = "granite_moe",
      .hf_classes = {"GraniteMoeForCausalLM"},
      .gguf_architectures = {"granitemoe"},
      .hf_model_type = "granitemoe",
      .keys =
          {
              {Field::kAttentionScale, {"attention_multiplier"}, "attention.scale", 1},
              {Field::kEmbeddingScale, {"embedding_multiplier"}, "embedding_scale", 1},
              {Field::kResidualScale, {"residual_multiplier"}, "residual_scale", 1},
              {Field::kLogitScale, {"logits_scaling"}, "logit_scale", 1},
              {Field::kExpertIntermediate, {"intermediate_size"}, "feed_forward_length", {}},
          },
      .hf_defaults = {{Field::kVocabSize, 32000},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kMaxPositions, 2048},
                      {Field::kNormEps, 1e-6},
                      {Field::kExperts, 8},
                      {Field::kExpertsPerToken, 2},
                      {Field::kExpertIntermediate, 11008}},
      .tensors =
          {
              {Role::kRouter, "model.layers.{l}.block_sparse_moe.router.layer.weight",
               "blk.{l}.ffn_gate_inp.weight"},
              {Role::kExpertGateUp, "model.layers.{l}.block_sparse_moe.input_linear.weight", ""},
              {Role::kExpertDownAll, "model.layers.{l}.block_sparse_moe.output_linear.weight", ""},
          },
      .attention = {.gguf_rope = RopeLayout::kInterleaved},
      .router = {.score = RouterScore::kLogit, .softmax_selected = true, .renormalize = false},
      .experts = {.layers = MoeLayerRule::kAll, .hf_fused = FusedExperts::kHalves},
      .finish = Finish,
  };
}

}  // namespace colibri
