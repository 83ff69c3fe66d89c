#include "model/arch_spec.h"

#include <algorithm>
#include <array>

namespace colibri {

const std::vector<KeyRow>& CommonKeys() {
  static const std::vector<KeyRow> keys = {
      {Field::kVocabSize, {"vocab_size"}, "vocab_size", {}},
      {Field::kHidden, {"hidden_size"}, "embedding_length", {}},
      {Field::kLayers, {"num_hidden_layers"}, "block_count", {}},
      {Field::kMaxPositions, {"max_position_embeddings"}, "context_length", {}},
      {Field::kNormEps, {"rms_norm_eps"}, "attention.layer_norm_rms_epsilon", {}},
      {Field::kHeads, {"num_attention_heads"}, "attention.head_count", {}},
      {Field::kKvHeads, {"num_key_value_heads"}, "attention.head_count_kv", 0},
      {Field::kHeadDim, {"head_dim"}, "attention.key_length", 0},
      {Field::kRotaryDim, {}, "rope.dimension_count", 0},
      {Field::kRotaryFraction, {"partial_rotary_factor"}, "", 1},
      {Field::kAttentionBias, {"attention_bias"}, "", 0},
      {Field::kTiedEmbeddings, {"tie_word_embeddings"}, "", 0},
      {Field::kSlidingWindow, {"sliding_window"}, "attention.sliding_window", 0},
      {Field::kUseSlidingWindow, {"use_sliding_window"}, "", 0},
      {Field::kMaxWindowLayers, {"max_window_layers"}, "", 28},
      {Field::kQkvClip, {"clip_qkv"}, "attention.clamp_kqv", 0},
      {Field::kUseQkNorm, {"use_qk_norm"}, "", 1},
      {Field::kAttentionScale, {}, "attention.scale", 0},
      {Field::kEmbeddingScale, {}, "embedding_scale", 1},
      {Field::kResidualScale, {}, "residual_scale", 1},
      {Field::kLogitScale, {}, "logit_scale", 1},
      {Field::kDenseIntermediate, {"intermediate_size"}, "feed_forward_length", {}},
      {Field::kExperts,
       {"num_experts", "num_local_experts", "n_routed_experts"},
       "expert_count",
       {}},
      {Field::kExpertsPerToken, {"num_experts_per_tok"}, "expert_used_count", {}},
      {Field::kExpertIntermediate, {"moe_intermediate_size"}, "expert_feed_forward_length", {}},
      {Field::kSharedExperts, {"n_shared_experts"}, "expert_shared_count", 0},
      {Field::kSharedIntermediate,
       {"shared_expert_intermediate_size"},
       "expert_shared_feed_forward_length",
       0},
      {Field::kRenormalize, {"norm_topk_prob"}, "expert_weights_norm", 0},
      {Field::kRenormalizeFloor, {}, "", 0},
      {Field::kRoutedScale, {"routed_scaling_factor"}, "expert_weights_scale", 1},
      {Field::kGroups, {"n_group"}, "expert_group_count", 1},
      {Field::kSelectedGroups, {"topk_group"}, "expert_group_used_count", 1},
      {Field::kGatingFunction, {}, "expert_gating_func", 0},
      {Field::kLeadingDenseLayers, {"first_k_dense_replace"}, "leading_dense_block_count", 0},
      {Field::kSparseStep, {"decoder_sparse_step"}, "", 1},
      {Field::kSwigluAlpha, {"swiglu_alpha"}, "", 1.702},
      {Field::kSwigluLimit, {"swiglu_limit"}, "", 7},
      {Field::kQLoraRank, {"q_lora_rank"}, "attention.q_lora_rank", 0},
      {Field::kKvLoraRank, {"kv_lora_rank"}, "attention.kv_lora_rank", {}},
      {Field::kNopeDim, {"qk_nope_head_dim"}, "", {}},
      {Field::kRopeDim, {"qk_rope_head_dim"}, "rope.dimension_count", {}},
      {Field::kValueDim, {"v_head_dim"}, "attention.value_length_mla", {}},
      {Field::kExtraLayers,
       {"num_nextn_predict_layers", "num_mtp_layers"},
       "nextn_predict_layers",
       0},
  };
  return keys;
}

const std::vector<TensorRow>& CommonTensors() {
  static const std::vector<TensorRow> rows = {
      {Role::kEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
      {Role::kFinalNorm, "model.norm.weight", "output_norm.weight"},
      {Role::kHead, "lm_head.weight", "output.weight"},
      {Role::kAttentionNorm, "model.layers.{l}.input_layernorm.weight", "blk.{l}.attn_norm.weight"},
      {Role::kFfnNorm, "model.layers.{l}.post_attention_layernorm.weight",
       "blk.{l}.ffn_norm.weight"},
      {Role::kQ, "model.layers.{l}.self_attn.q_proj.weight", "blk.{l}.attn_q.weight"},
      {Role::kK, "model.layers.{l}.self_attn.k_proj.weight", "blk.{l}.attn_k.weight"},
      {Role::kV, "model.layers.{l}.self_attn.v_proj.weight", "blk.{l}.attn_v.weight"},
      {Role::kO, "model.layers.{l}.self_attn.o_proj.weight", "blk.{l}.attn_output.weight"},
      {Role::kQNorm, "model.layers.{l}.self_attn.q_norm.weight", "blk.{l}.attn_q_norm.weight"},
      {Role::kKNorm, "model.layers.{l}.self_attn.k_norm.weight", "blk.{l}.attn_k_norm.weight"},
      {Role::kSinks, "model.layers.{l}.self_attn.sinks", "blk.{l}.attn_sinks.weight"},
      {Role::kQa, "model.layers.{l}.self_attn.q_a_proj.weight", "blk.{l}.attn_q_a.weight"},
      {Role::kQaNorm, "model.layers.{l}.self_attn.q_a_layernorm.weight",
       "blk.{l}.attn_q_a_norm.weight"},
      {Role::kQb, "model.layers.{l}.self_attn.q_b_proj.weight", "blk.{l}.attn_q_b.weight"},
      {Role::kKvA, "model.layers.{l}.self_attn.kv_a_proj_with_mqa.weight",
       "blk.{l}.attn_kv_a_mqa.weight"},
      {Role::kKvANorm, "model.layers.{l}.self_attn.kv_a_layernorm.weight",
       "blk.{l}.attn_kv_a_norm.weight"},
      {Role::kKvB, "model.layers.{l}.self_attn.kv_b_proj.weight", "blk.{l}.attn_kv_b.weight"},
      {Role::kKb, "", "blk.{l}.attn_k_b.weight"},
      {Role::kVb, "", "blk.{l}.attn_v_b.weight"},
      {Role::kDenseGate, "model.layers.{l}.mlp.gate_proj.weight", "blk.{l}.ffn_gate.weight"},
      {Role::kDenseUp, "model.layers.{l}.mlp.up_proj.weight", "blk.{l}.ffn_up.weight"},
      {Role::kDenseDown, "model.layers.{l}.mlp.down_proj.weight", "blk.{l}.ffn_down.weight"},
      {Role::kRouter, "model.layers.{l}.mlp.gate.weight", "blk.{l}.ffn_gate_inp.weight"},
      {Role::kSelectionBias, "model.layers.{l}.mlp.gate.e_score_correction_bias",
       "blk.{l}.exp_probs_b.bias"},
      {Role::kExpertGate, "model.layers.{l}.mlp.experts.{e}.gate_proj.weight",
       "blk.{l}.ffn_gate_exps.weight"},
      {Role::kExpertUp, "model.layers.{l}.mlp.experts.{e}.up_proj.weight",
       "blk.{l}.ffn_up_exps.weight"},
      {Role::kExpertDown, "model.layers.{l}.mlp.experts.{e}.down_proj.weight",
       "blk.{l}.ffn_down_exps.weight"},
      {Role::kExpertGateBias, "", "blk.{l}.ffn_gate_exps.bias"},
      {Role::kExpertUpBias, "", "blk.{l}.ffn_up_exps.bias"},
      {Role::kExpertDownBias, "", "blk.{l}.ffn_down_exps.bias"},
      {Role::kSharedGate, "model.layers.{l}.mlp.shared_experts.gate_proj.weight",
       "blk.{l}.ffn_gate_shexp.weight"},
      {Role::kSharedUp, "model.layers.{l}.mlp.shared_experts.up_proj.weight",
       "blk.{l}.ffn_up_shexp.weight"},
      {Role::kSharedDown, "model.layers.{l}.mlp.shared_experts.down_proj.weight",
       "blk.{l}.ffn_down_shexp.weight"},
      {Role::kSharedRouter, "", "blk.{l}.ffn_gate_inp_shexp.weight"},
      {Role::kRopeFactors, "", "rope_freqs.weight"},
      {Role::kRopeLong, "", "rope_factors_long.weight"},
      {Role::kRopeShort, "", "rope_factors_short.weight"},
  };
  return rows;
}

bool NullIsZero(Field field) {
  constexpr std::array<Field, 7> kFields = {
      Field::kKvHeads,   Field::kHeadDim, Field::kSlidingWindow, Field::kQkvClip,
      Field::kQLoraRank, Field::kGroups,  Field::kSelectedGroups};
  return std::find(kFields.begin(), kFields.end(), field) != kFields.end();
}

std::string_view TensorName(const ArchSpec& spec, Role role, bool gguf) {
  for (const std::vector<TensorRow>* rows : {&spec.tensors, &CommonTensors()}) {
    for (const TensorRow& row : *rows) {
      if (row.role == role) return gguf ? row.gguf : row.hf;
    }
  }
  return {};
}

}  // namespace colibri
