// model/config.h - what a model is, resolved from its files: every number that the forward pass
// reads, and one plan a layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "model/rope.h"
#include "moe/router_spec.h"

namespace colibri {

enum class NormKind : uint8_t {
  kRms,    // RMSNorm
  kLayer,  // LayerNorm with bias
};

// What mixes positions in a layer. Recurrent kinds will stand here beside attention; their state
// has its place in KvLayout.
enum class MixerKind : uint8_t {
  kGqa,  // grouped-query attention
  kMla,  // multi-head latent attention, computed in its absorbed form (DeepSeek-V2,
         // arXiv:2405.04434, section 2.1)
};

enum class QkNorm : uint8_t {
  kNone,
  kPerHead,  // RMSNorm over each head
  kFull,     // RMSNorm over all heads of a token together
};

struct AttentionPlan {
  MixerKind kind = MixerKind::kGqa;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;    // of queries and keys
  int32_t v_head_dim = 0;  // of values
  float scale = 0;         // multiplies the scores
  int32_t window = 0;      // positions that a token sees, itself included; 0: all before it
  bool has_sinks = false;  // a learnt logit a head that takes part in the softmax and has no value
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_after_rope = false;
  float qkv_clip = 0;  // queries, keys and values are held to +-clip; 0: not
  int32_t rope = -1;   // index into ModelConfig::ropes; -1: no rotation
  // kMla alone
  int32_t q_lora_rank = 0;   // 0: queries come straight from the hidden state
  int32_t kv_lora_rank = 0;  // the latent that is cached
  int32_t nope_dim = 0;      // part of a query head that is not rotated
  int32_t rope_dim = 0;      // part that is
};

struct FfnPlan {
  GatedActivationArgs activation{GatedActivation::kSilu};
  int32_t dense_intermediate = 0;  // of a dense layer; 0 where experts stand
  // A layer with experts
  RouterSpec router;  // n_experts = 0: dense
  int32_t expert_intermediate = 0;
  int32_t shared_intermediate = 0;  // shared experts as one; 0: none
  bool shared_gate = false;  // the shared expert's output is scaled by a sigmoid of the token
  bool is_moe() const { return router.n_experts > 0; }
};

struct LayerPlan {
  AttentionPlan attention;
  FfnPlan ffn;
};

struct ModelConfig {
  std::string family;        // the spec's name: "qwen3_moe"
  std::string architecture;  // as the file spells it: "Qwen3MoeForCausalLM" or "qwen3moe"
  std::string format;        // "safetensors", "gguf v3"
  int32_t vocab_size = 0;
  int32_t hidden = 0;
  int32_t n_layers = 0;
  int32_t max_positions = 0;  // the context that the model was made for
  NormKind norm = NormKind::kRms;
  float norm_eps = 0;
  bool tied_embeddings = false;  // the output matrix is the embedding
  float embedding_scale = 1;
  float residual_scale = 1;  // multiplies what attention and FFN add
  float logit_scale = 1;     // multiplies the logits
  std::vector<RopeSpec> ropes;
  std::vector<LayerPlan> layers;  // [n_layers]
  int32_t bos_token_id = -1;
  std::vector<int32_t> eos_token_ids;  // the union of config and generation config
};

}  // namespace colibri
