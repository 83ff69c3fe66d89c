#include "model/registry.h"

namespace colibri {

ArchSpec OlmoeSpec() {
  return {
      .name = "olmoe",
      .hf_classes = {"OlmoeForCausalLM"},
      .gguf_architectures = {"olmoe"},
      .keys = {{Field::kExpertIntermediate, {"intermediate_size"}, "feed_forward_length", {}}},
      .attention = {.qk_norm = QkNorm::kFull},
      .experts = {.layers = MoeLayerRule::kAll},
  };
}

}  // namespace colibri
