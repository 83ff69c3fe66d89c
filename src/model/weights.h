// model/weights.h - views of a model's weights, where the forward pass finds them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "moe/expert_weights.h"
#include "moe/product.h"
#include "tensor/matrix_view.h"

namespace colibri {

// Absent parts have null data. Vectors are float32 whatever the file held; matrices keep the file's
// type.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

// A matrix with an optional bias, [rows] float32.
struct LinearWeights {
  MatrixView matrix;
  const float* bias = nullptr;
};

struct AttentionWeights {
  LinearWeights q, k, v, o;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* sinks = nullptr;  // [n_heads]
  // Latent attention: q is the whole query projection where q_lora_rank is 0, else the second of
  // its two steps.
  LinearWeights q_a;  // [q_lora_rank, hidden]
  const float* q_a_norm = nullptr;
  LinearWeights kv_a;  // [kv_lora_rank + rope_dim, hidden]
  const float* kv_a_norm = nullptr;
  std::vector<LinearWeights>
      k_b;  // [n_heads] of [kv_lora_rank, nope_dim]: a query's unrotated part into the latent space
  std::vector<LinearWeights> v_b;  // [n_heads] of [v_head_dim, kv_lora_rank]: out of it
};

struct LayerWeights {
  NormWeights attention_norm, ffn_norm;
  InputForms attention_input, ffn_input;  // of what the norms give
  AttentionWeights attention;
  FfnWeights ffn;  // a dense layer's, else empty
  MoeWeights moe;  // a layer with experts, else empty
};

struct ModelWeights {
  MatrixView embedding;  // [vocab, hidden]
  NormWeights final_norm;
  LinearWeights head;  // [vocab, hidden]; the embedding's view where tied
  InputForms head_input;
  std::vector<LayerWeights> layers;
};

}  // namespace colibri
