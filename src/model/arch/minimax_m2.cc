#include "model/registry.h"

namespace colibri {

ArchSpec MinimaxM2Spec() {
  return {
      .name = "minimax_m2",
      .hf_classes = {"MiniMaxM2ForCausalLM"},
      .gguf_architectures = {"minimax-m2"},
      .default_theta = 5000000,
      .hf_model_type = "minimax_m2",
      .keys =
          {{Field::kExpertIntermediate, {"intermediate_size"}, "expert_feed_forward_length", {}},
           {Field::kRotaryDim, {"rotary_dim"}, "rope.dimension_count", 0}},
      .hf_defaults = {{Field::kVocabSize, 200064},
                      {Field::kHidden, 3072},
                      {Field::kLayers, 62},
                      {Field::kHeads, 48},
                      {Field::kKvHeads, 8},
                      {Field::kHeadDim, 128},
                      {Field::kMaxPositions, 196608},
                      {Field::kNormEps, 1e-6},
                      {Field::kExperts, 256},
                      {Field::kExpertsPerToken, 8},
                      {Field::kExpertIntermediate, 1536}},
      .tensors =
          {
              {Role::kRouter, "model.layers.{l}.block_sparse_moe.gate.weight",
               "blk.{l}.ffn_gate_inp.weight"},
              {Role::kSelectionBias, "model.layers.{l}.block_sparse_moe.e_score_correction_bias",
               "blk.{l}.exp_probs_b.bias"},
              {Role::kExpertGate, "model.layers.{l}.block_sparse_moe.experts.{e}.w1.weight",
               "blk.{l}.ffn_gate_exps.weight"},
              {Role::kExpertUp, "model.layers.{l}.block_sparse_moe.experts.{e}.w3.weight",
               "blk.{l}.ffn_up_exps.weight"},
              {Role::kExpertDown, "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight",
               "blk.{l}.ffn_down_exps.weight"},
          },
      .attention = {.qk_norm = QkNorm::kFull, .partial_rotary = true},
      .router = {.score = RouterScore::kSigmoid, .renormalize = true, .selection_bias = true},
      .experts = {.layers = MoeLayerRule::kAll},
  };
}

}  // namespace colibri
