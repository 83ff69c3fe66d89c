// DeepSeek-V2 and V3 (also R1, V3.1, Kimi K2, Moonlight): multi-head latent attention, leading
// dense layers, shared experts.
#include "format/metadata.h"
#include "format/tensor_source.h"
#include "model/config_reader.h"
#include "model/registry.h"

namespace colibri {
namespace {

// GGUF writes 2 for sigmoid. Files from before that key have the selection bias in V3 alone.
bool IsSigmoidGguf(const Metadata& metadata, const TensorSource& tensors) {
  const Result<std::optional<int64_t>> gating = metadata.GetInt("deepseek2.expert_gating_func");
  if (gating.ok() && *gating) return **gating == 2;
  for (const TensorInfo& tensor : tensors.tensors()) {
    if (tensor.name.find("exp_probs_b") != std::string::npos) return true;
  }
  return false;
}

AttentionSpec LatentAttention() {
  return {.mixer = MixerKind::kMla,
          .hf_rope = RopeLayout::kInterleaved,
          .gguf_rope = RopeLayout::kInterleaved};
}

Status FinishV2(const ConfigReader& reader, ModelConfig& config) {
  // GGUF does not name the method: more than one group is there for models that limit by groups.
  if (reader.gguf()) return Status();
  COLIBRI_ASSIGN_OR_RETURN(const std::string method, reader.Text({"topk_method"}, "greedy"));
  for (LayerPlan& layer : config.layers) {
    RouterSpec& router = layer.ffn.router;
    if (method == "greedy") {
      // Groups play no part, whatever their number.
      router.n_groups = router.n_selected_groups = 1;
    } else if (method != "group_limited_greedy") {
      return reader.UnknownValue("topk_method", method, "greedy or group_limited_greedy");
    }
  }
  return Status();
}

Status FinishV3(const ConfigReader& reader, ModelConfig& config) {
  COLIBRI_ASSIGN_OR_RETURN(const std::string scoring, reader.Text({"scoring_func"}, "sigmoid"));
  if (scoring != "sigmoid") return reader.UnknownValue("scoring_func", scoring, "sigmoid");
  COLIBRI_ASSIGN_OR_RETURN(const std::string method, reader.Text({"topk_method"}, "noaux_tc"));
  if (method != "noaux_tc") return reader.UnknownValue("topk_method", method, "noaux_tc");
  COLIBRI_ASSIGN_OR_RETURN(const bool interleave, reader.Flag(Field::kRopeInterleave));
  if (!interleave) {
    for (RopeSpec& rope : config.ropes) rope.layout = RopeLayout::kHalf;
  }
  return Status();
}

}  // namespace

ArchSpec DeepseekV2Spec() {
  return {
      .name = "deepseek_v2",
      .hf_classes = {"DeepseekV2ForCausalLM"},
      .gguf_architectures = {"deepseek2"},  // with softmax gating
      .hf_model_type = "deepseek_v2",
      .keys = {{Field::kRenormalize,
                {},
                "expert_weights_norm",
                0}},  // transformers never renormalises here
      .hf_defaults = {{Field::kVocabSize, 102400},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kMaxPositions, 2048},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 11008},
                      {Field::kQLoraRank, 1536},
                      {Field::kKvLoraRank, 512},
                      {Field::kNopeDim, 128},
                      {Field::kRopeDim, 64},
                      {Field::kValueDim, 128},
                      {Field::kExperts, 64},
                      {Field::kExpertIntermediate, 1407},
                      {Field::kSharedExperts, 2}},
      .attention = LatentAttention(),
      .router = {.score = RouterScore::kSoftmax,
                 .renormalize_epsilon = 1e-20f,
                 .group_score = GroupScore::kMax},
      .experts = {.layers = MoeLayerRule::kLeadingDense},
      .gguf_when = [](const Metadata& metadata,
                      const TensorSource& tensors) { return !IsSigmoidGguf(metadata, tensors); },
      .finish = FinishV2,
  };
}

ArchSpec DeepseekV3Spec() {
  return {
      .name = "deepseek_v3",
      .hf_classes = {"DeepseekV3ForCausalLM"},
      .gguf_architectures = {"deepseek2"},  // with sigmoid gating
      .hf_model_type = "deepseek_v3",
      .keys =
          {
              {Field::kRenormalize, {"norm_topk_prob"}, "expert_weights_norm", 1, 0},
              {Field::kRopeInterleave, {"rope_interleave"}, "", 1},
              {Field::kRoutedScale, {"routed_scaling_factor"}, "expert_weights_scale", 2.5, 1},
          },
      .hf_defaults = {{Field::kVocabSize, 129280},
                      {Field::kHidden, 7168},
                      {Field::kLayers, 61},
                      {Field::kHeads, 128},
                      {Field::kMaxPositions, 4096},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 18432},
                      {Field::kLeadingDenseLayers, 3},
                      {Field::kQLoraRank, 1536},
                      {Field::kKvLoraRank, 512},
                      {Field::kNopeDim, 128},
                      {Field::kRopeDim, 64},
                      {Field::kValueDim, 128},
                      {Field::kExperts, 256},
                      {Field::kExpertsPerToken, 8},
                      {Field::kExpertIntermediate, 2048},
                      {Field::kSharedExperts, 1},
                      {Field::kGroups, 8},
                      {Field::kSelectedGroups, 4},
                      {Field::kExtraLayers, 1}},
      .attention = LatentAttention(),
      .router = {.score = RouterScore::kSigmoid,
                 .renormalize_epsilon = 1e-20f,
                 .group_score = GroupScore::kTopTwo,
                 .selection_bias = true},
      .experts = {.layers = MoeLayerRule::kLeadingDense},
      .gguf_when = IsSigmoidGguf,
      .finish = FinishV3,
  };
}

}  // namespace colibri
