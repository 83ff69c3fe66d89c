#include "model/registry.h"

namespace colibri {

ArchSpec Ernie45MoeSpec() {
  return {
      .name = "ernie4_5_moe",
      .hf_classes = {"Ernie4_5_MoeForCausalLM"},
      .gguf_architectures = {"ernie4_5-moe"},
      .default_theta = 500000,
      .hf_model_type = "ernie4_5_moe",
      .keys =
          {
              {Field::kAttentionBias, {"use_bias"}, "", 0},
              {Field::kTiedEmbeddings, {"tie_word_embeddings"}, "", 1},
              {Field::kExperts, {"moe_num_experts", "num_experts"}, "expert_count", {}},
              {Field::kExpertsPerToken, {"moe_k", "num_experts_per_tok"}, "expert_used_count", {}},
              {Field::kSharedExperts, {"moe_num_shared_experts"}, "expert_shared_count", 0},
              {Field::kRenormalizeFloor, {"moe_norm_min"}, "", 1e-12},
              {Field::kMoeStart, {"moe_layer_start_index"}, "", 1},
              {Field::kMoeEnd, {"moe_layer_end_index"}, "", -1},
              {Field::kMoeInterval, {"moe_layer_interval"}, "", 1},
          },
      .hf_defaults = {{Field::kVocabSize, 103424},
                      {Field::kHidden, 2560},
                      {Field::kLayers, 28},
                      {Field::kHeads, 20},
                      {Field::kKvHeads, 4},
                      {Field::kMaxPositions, 131072},
                      {Field::kNormEps, 1e-5},
                      {Field::kDenseIntermediate, 12288},
                      {Field::kExperts, 64},
                      {Field::kExpertsPerToken, 6},
                      {Field::kExpertIntermediate, 1536},
                      {Field::kSharedExperts, 2}},
      .tensors = {{Role::kSelectionBias, "model.layers.{l}.mlp.moe_statics.e_score_correction_bias",
                   "blk.{l}.exp_probs_b.bias"}},
      .attention = {.hf_rope = RopeLayout::kInterleaved, .gguf_rope = RopeLayout::kInterleaved},
      .router = {.score = RouterScore::kSoftmax, .renormalize = true, .selection_bias = true},
      .experts = {.layers = MoeLayerRule::kInterval},
      .unused_tensors = {"model.mtp_"},
  };
}

}  // namespace colibri
