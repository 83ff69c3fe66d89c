#include "model/registry.h"

namespace colibri {

ArchSpec Dots1Spec() {
  return {
      .name = "dots1",
      .hf_classes = {"Dots1ForCausalLM"},
      .gguf_architectures = {"dots1"},
      .keys =
          {
              {Field::kMaxWindowLayers, {"max_window_layers"}, "", 62},
              {Field::kUseSlidingWindow, {}, "", 1},
              {Field::kSlidingWindow, {"sliding_window"}, "attention.sliding_window", 0},
          },
      .attention = {.qk_norm = QkNorm::kPerHead, .window = WindowRule::kLayerTypes},
      .router = {.score = RouterScore::kSigmoid,
                 .renormalize_epsilon = 1e-20f,
                 .group_score = GroupScore::kTopTwo,
                 .selection_bias = true},
      .experts = {.layers = MoeLayerRule::kLeadingDense},
  };
}

}  // namespace colibri
