// model/kv_layout.h - what a sequence keeps between steps: pages of keys and values, and a slot of
// recurrent state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colibri {

// Positions that one page holds, for all layers.
inline constexpr int32_t kPageTokens = 32;

// Where a layer's rows lie within a page. Rows are float32. A layer without a KV cache has k_floats
// = v_floats = 0.
struct LayerKvLayout {
  uint64_t k_offset = 0;  // floats from the page's start to the first key row
  uint64_t v_offset = 0;  // the same for values; equal to k_offset where values are a prefix of the
                          // keys (latent attention)
  uint32_t k_floats = 0;  // a key row: n_kv_heads * head_dim, or the latent and its rotary part
  uint32_t v_floats = 0;  // a value row
};

struct KvLayout {
  std::vector<LayerKvLayout> layers;
  uint64_t page_floats = 0;  // one page, all layers
  uint64_t recurrent_floats =
      0;  // fixed-size state of one sequence (recurrent layers); 0 for models that have none
};

// The memory that a forward pass reads and writes; owned by the engine.
struct KvStorage {
  float* pages = nullptr;  // [n_pages, page_floats]
  int32_t n_pages = 0;
  float* recurrent = nullptr;  // [n_slots, recurrent_floats]
  int32_t n_slots = 0;
};

}  // namespace colibri
