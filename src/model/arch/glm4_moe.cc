// GLM-4.5, 4.6, 4.7 and their Air variants.
#include "model/config_reader.h"
#include "model/registry.h"

namespace colibri {
namespace {

Status Finish(const ConfigReader& reader, ModelConfig& config) {
  COLIBRI_ASSIGN_OR_RETURN(const bool use_qk_norm, reader.Flag(Field::kUseQkNorm));
  const bool has_qk_norm = reader.gguf() ? reader.HasTensor(Role::kQNorm, 0) : use_qk_norm;
  for (LayerPlan& layer : config.layers) {
    if (!has_qk_norm) layer.attention.qk_norm = QkNorm::kNone;
  }
  return Status();
}

}  // namespace

ArchSpec Glm4MoeSpec() {
  return {
      .name = "glm4_moe",
      .hf_classes = {"Glm4MoeForCausalLM"},
      .gguf_architectures = {"glm4moe"},
      .hf_model_type = "glm4_moe",
      .keys =
          {
              {Field::kRotaryFraction, {"partial_rotary_factor"}, "", 0.5},
              {Field::kRenormalize, {"norm_topk_prob"}, "expert_weights_norm", 1},
              {Field::kUseQkNorm, {"use_qk_norm"}, "", 0},
          },
      .hf_defaults = {{Field::kVocabSize, 151552},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 46},
                      {Field::kHeads, 96},
                      {Field::kKvHeads, 8},
                      {Field::kMaxPositions, 131072},
                      {Field::kNormEps, 1e-5},
                      {Field::kDenseIntermediate, 10944},
                      {Field::kLeadingDenseLayers, 1},
                      {Field::kExperts, 128},
                      {Field::kExpertsPerToken, 8},
                      {Field::kExpertIntermediate, 1408},
                      {Field::kSharedExperts, 1},
                      {Field::kExtraLayers, 1}},
      .tensors = {{Role::kFfnNorm, "model.layers.{l}.post_attention_layernorm.weight",
                   "blk.{l}.post_attention_norm.weight"}},
      .attention = {.qk_norm = QkNorm::kPerHead, .output_bias = false, .partial_rotary = true},
      .router = {.score = RouterScore::kSigmoid,
                 .renormalize_epsilon = 1e-20f,
                 .group_score = GroupScore::kTopTwo,
                 .selection_bias = true},
      .experts = {.layers = MoeLayerRule::kLeadingDense},
      .finish = Finish,
  };
}

}  // namespace colibri
