// The dense families: the same forward pass with layer plans that have no experts.
#include "format/metadata.h"
#include "model/registry.h"

namespace colibri {
namespace {

bool HasExperts(const Metadata& metadata) {
  const Result<std::optional<int64_t>> count = metadata.GetInt("llama.expert_count");
  return count.ok() && count->value_or(0) > 0;
}

}  // namespace

ArchSpec LlamaSpec() {
  return {
      .name = "llama",
      .hf_classes = {"LlamaForCausalLM"},
      .gguf_architectures = {"llama"},
      // The converter orders the rows of q and k for the interleaved rotation.
      .hf_model_type = "llama",
      .hf_defaults = {{Field::kVocabSize, 32000},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kMaxPositions, 2048},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 11008}},
      .attention = {.gguf_rope = RopeLayout::kInterleaved},
      .gguf_when = [](const Metadata& metadata,
                      const TensorSource&) { return !HasExperts(metadata); },
  };
}

ArchSpec Qwen2Spec() {
  return {
      .name = "qwen2",
      .hf_classes = {"Qwen2ForCausalLM"},
      .gguf_architectures = {"qwen2"},
      // Biases are part of the architecture: no key speaks of them.
      .hf_model_type = "qwen2",
      .keys = {{Field::kAttentionBias, {}, "", 1},
               {Field::kSlidingWindow, {"sliding_window"}, "", 4096}},
      .hf_defaults = {{Field::kVocabSize, 151936},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kKvHeads, 32},
                      {Field::kMaxPositions, 32768},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 22016},
                      {Field::kSlidingWindow, 4096}},
      .attention = {.output_bias = false, .window = WindowRule::kLayerTypes},
  };
}

ArchSpec Qwen3Spec() {
  return {
      .name = "qwen3",
      .hf_classes = {"Qwen3ForCausalLM"},
      .gguf_architectures = {"qwen3"},
      .hf_model_type = "qwen3",
      .keys = {{Field::kHeadDim, {"head_dim"}, "attention.key_length", 128},
               {Field::kSlidingWindow, {"sliding_window"}, "", 4096}},
      .hf_defaults = {{Field::kVocabSize, 151936},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kKvHeads, 32},
                      {Field::kHeadDim, 128},
                      {Field::kMaxPositions, 32768},
                      {Field::kNormEps, 1e-6},
                      {Field::kDenseIntermediate, 22016},
                      {Field::kSlidingWindow, 4096}},
      .attention = {.qk_norm = QkNorm::kPerHead, .window = WindowRule::kLayerTypes},
  };
}

}  // namespace colibri
