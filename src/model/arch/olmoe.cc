#include "model/registry.h"

namespace colibri {

ArchSpec OlmoeSpec() {
  return {
      .name = "olmoe",
      .hf_classes = {"OlmoeForCausalLM"},
      .gguf_architectures = {"olmoe"},
      .hf_model_type = "olmoe",
      .keys = {{Field::kExpertIntermediate, {"intermediate_size"}, "feed_forward_length", {}}},
      .hf_defaults = {{Field::kVocabSize, 50304},
                      {Field::kHidden, 2048},
                      {Field::kLayers, 16},
                      {Field::kHeads, 16},
                      {Field::kMaxPositions, 4096},
                      {Field::kNormEps, 1e-5},
                      {Field::kExperts, 64},
                      {Field::kExpertsPerToken, 8},
                      {Field::kExpertIntermediate, 2048}},
      .attention = {.qk_norm = QkNorm::kFull},
      .experts = {.layers = MoeLayerRule::kAll},
  };
}

}  // namespace colibri
