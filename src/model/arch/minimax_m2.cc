#include "model/registry.h"

namespace colibri {

ArchSpec MinimaxM2Spec() {
  return {
      .name = "minimax_m2",
      .hf_classes = {"MiniMaxM2ForCausalLM"},
      .gguf_architectures = {"minimax-m2"},
      .default_theta = 5000000,
      .keys =
          {{Field::kExpertIntermediate, {"intermediate_size"}, "expert_feed_forward_length", {}}},
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
      .attention = {.qk_norm = QkNorm::kFull},
      .router = {.score = RouterScore::kSigmoid, .renormalize = true, .selection_bias = true},
      .experts = {.layers = MoeLayerRule::kAll},
  };
}

}  // namespace colibri
