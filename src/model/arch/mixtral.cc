#include "format/metadata.h"
#include "model/registry.h"

namespace colibri {

ArchSpec MixtralSpec() {
  return {
      .name = "mixtral",
      .hf_classes = {"MixtralForCausalLM"},
      .gguf_architectures = {"llama"},  // with expert_count > 0
      .default_theta = 1000000,
      .hf_model_type = "mixtral",
      .keys =
          {
              {Field::kExpertIntermediate, {"intermediate_size"}, "feed_forward_length", {}},
              {Field::kUseSlidingWindow, {}, "", 1},
          },
      .hf_defaults = {{Field::kVocabSize, 32000},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kKvHeads, 8},
                      {Field::kMaxPositions, 131072},
                      {Field::kNormEps, 1e-5},
                      {Field::kExperts, 8},
                      {Field::kExpertsPerToken, 2},
                      {Field::kExpertIntermediate, 14336}},
      .tensors =
          {
              {Role::kRouter, "model.layers.{l}.block_sparse_moe.gate.weight",
               "blk.{l}.ffn_gate_inp.weight"},
              {Role::kExpertGate, "model.layers.{l}.block_sparse_moe.experts.{e}.w1.weight",
               "blk.{l}.ffn_gate_exps.weight"},
              {Role::kExpertUp, "model.layers.{l}.block_sparse_moe.experts.{e}.w3.weight",
               "blk.{l}.ffn_up_exps.weight"},
              {Role::kExpertDown, "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight",
               "blk.{l}.ffn_down_exps.weight"},
          },
      .attention = {.gguf_rope = RopeLayout::kInterleaved, .window = WindowRule::kAllLayers},
      .router = {.score = RouterScore::kSoftmax, .renormalize = true},
      .experts = {.layers = MoeLayerRule::kAll},
      .gguf_when =
          [](const Metadata& metadata, const TensorSource&) {
            const Result<std::optional<int64_t>> count = metadata.GetInt("llama.expert_count");
            return !count.ok() || count->value_or(0) > 0;
          },
  };
}

}  // namespace colibri
