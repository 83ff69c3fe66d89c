#include "model/registry.h"

namespace colibri {

ArchSpec Dots1Spec() {
  return {
      .name = "dots1",
      .hf_classes = {"Dots1ForCausalLM"},
      .gguf_architectures = {"dots1"},
      .hf_model_type = "dots1",
      .keys =
          {
              {Field::kMaxWindowLayers, {"max_window_layers"}, "", 62},
              {Field::kUseSlidingWindow, {}, "", 1},
              {Field::kSlidingWindow, {"sliding_window"}, "attention.sliding_window", 0},
          },
      .hf_defaults = {{Field::kVocabSize, 152064},
                      {Field::kHidden, 4608},
                      {Field::kLayers, 62},
                      {Field::kHeads, 32},
                      {Field::kKvHeads, 32},
                      {Field::kMaxPositions, 2048},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 10944},
                      {Field::kExpertIntermediate, 1408},
                      {Field::kSlidingWindow, 4096}},
      .attention = {.qk_norm = QkNorm::kPerHead, .window = WindowRule::kLayerTypes},
      .router = {.score = RouterScore::kSigmoid,
                 .renormalize_epsilon = 1e-20f,
                 .group_score = GroupScore::kTopTwo,
                 .selection_bias = true},
      .experts = {.layers = MoeLayerRule::kLeadingDense},
  };
}

}  // namespace colibri
