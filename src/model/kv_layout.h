// model/kv_layout.h - what a sequence keeps between steps: pages of keys and values, and a slot of
// recurrent state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kv_panel.h"

namespace colibri {

struct ModelConfig;

// Positions that one page holds, for all layers.
inline constexpr int32_t kPageTokens = kPanelPositions;

// "f32", "bf16", "f16", "q8_0", in the order of KvType: what options call them.
inline constexpr std::string_view kKvTypeNames[kNumKvTypes] = {"f32", "bf16", "f16", "q8_0"};
inline std::string_view KvTypeName(KvType type) {
  return kKvTypeNames[static_cast<size_t>(type)];
}
std::optional<KvType> ParseKvType(std::string_view name);
// What a key's or value's magnitude must stay below, or it is read as one that is not finite.
float KvTypeLimit(KvType type);

// Where a layer's keys and values lie within a page: a panel of keys for each key-value head, then
// one of values for each. A layer without a KV cache has n_heads = 0.
struct LayerKvLayout {
  uint64_t k_offset = 0;  // bytes from the page's start to the first panel of keys
  uint64_t v_offset = 0;  // the same for values
  uint64_t k_panel_bytes = 0;
  uint64_t v_panel_bytes = 0;
  int32_t n_heads = 0;          // of keys and values; 1 for latent attention
  int32_t head_dim = 0;         // of a key; the latent and its rotary part
  int32_t v_head_dim = 0;       // of a value
  bool values_in_keys = false;  // latent attention: a value is its key's first v_head_dim elements,
                                // and there is no panel of values

  // A position's floats before they are stored, all heads.
  uint32_t k_floats() const {
    return static_cast<uint32_t>(n_heads) * static_cast<uint32_t>(head_dim);
  }
  uint32_t v_floats() const {
    return values_in_keys ? 0 : static_cast<uint32_t>(n_heads) * static_cast<uint32_t>(v_head_dim);
  }
};

struct KvLayout {
  KvType type = KvType::kF32;
  std::vector<LayerKvLayout> layers;
  uint64_t page_bytes = 0;  // one page, all layers; a multiple of 64
  uint64_t recurrent_floats =
      0;  // fixed-size state of one sequence (recurrent layers); 0 for models that have none
};

// Where keys and values of each layer lie in a page, stored as `type`.
KvLayout MakeKvLayout(const ModelConfig& config, KvType type);

// The memory that a forward pass reads and writes; owned by the engine.
struct KvStorage {
  const KvLayout* layout = nullptr;
  uint8_t* pages = nullptr;  // [n_pages, layout->page_bytes], 64-byte aligned
  int32_t n_pages = 0;
  float* recurrent = nullptr;  // [n_slots, layout->recurrent_floats]
  int32_t n_slots = 0;
};

}  // namespace colibri
