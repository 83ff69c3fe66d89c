#include "model/kv_layout.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

#include "model/config.h"

namespace colibri {

std::optional<KvType> ParseKvType(std::string_view name) {
  const auto* const found = std::find(std::begin(kKvTypeNames), std::end(kKvTypeNames), name);
  if (found == std::end(kKvTypeNames)) return std::nullopt;
  return static_cast<KvType>(found - std::begin(kKvTypeNames));
}

float KvTypeLimit(KvType type) {
  constexpr float kF16Overflow = 65520;  // halfway from the largest binary16 to the next
  constexpr uint32_t kBf16Overflow = 0x7f7f8000;
  switch (type) {
    case KvType::kF32:
      break;
    case KvType::kBF16:
      return std::bit_cast<float>(kBf16Overflow);
    case KvType::kF16:
      return kF16Overflow;
    case KvType::kQ8_0:
      return kF16Overflow * 127;  // the scale of 127 steps is binary16
  }
  return std::numeric_limits<float>::infinity();
}

KvLayout MakeKvLayout(const ModelConfig& config, KvType type) {
  KvLayout layout;
  layout.type = type;
  for (const LayerPlan& layer : config.layers) {
    const AttentionPlan& attention = layer.attention;
    LayerKvLayout rows;
    if (attention.kind == MixerKind::kMla) {
      rows.n_heads = 1;
      rows.head_dim = attention.kv_lora_rank + attention.rope_dim;
      rows.v_head_dim = attention.kv_lora_rank;
      rows.values_in_keys = true;
    } else {
      rows.n_heads = attention.n_kv_heads;
      rows.head_dim = attention.head_dim;
      rows.v_head_dim = attention.v_head_dim;
    }
    const auto n_heads = static_cast<uint64_t>(rows.n_heads);
    rows.k_panel_bytes = PanelBytes(type, rows.head_dim);
    rows.k_offset = layout.page_bytes;
    layout.page_bytes += n_heads * rows.k_panel_bytes;
    rows.v_offset = rows.k_offset;
    if (!rows.values_in_keys) {
      rows.v_panel_bytes = PanelBytes(type, rows.v_head_dim);
      rows.v_offset = layout.page_bytes;
      layout.page_bytes += n_heads * rows.v_panel_bytes;
    }
    layout.layers.push_back(rows);
  }
  return layout;
}

}  // namespace colibri
