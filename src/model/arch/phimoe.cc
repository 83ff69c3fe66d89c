// Phi-3.5-MoE: LayerNorm, the sparse mixer, LongRoPE.
#include "model/config_reader.h"
#include "model/registry.h"

namespace colibri {
namespace {

Status Finish(const ConfigReader& reader, ModelConfig& config) {
  COLIBRI_ASSIGN_OR_RETURN(const double jitter, reader.Number(Field::kRouterJitter));
  for (LayerPlan& layer : config.layers) {
    layer.ffn.router.sparse_mixer_jitter = static_cast<float>(jitter);
    if (layer.ffn.router.n_selected != 2) {
      return reader.UnknownValue("num_experts_per_tok", std::to_string(layer.ffn.router.n_selected),
                                 "2: the sparse mixer chooses two");
    }
  }
  return Status();
}

}  // namespace

ArchSpec PhimoeSpec() {
  return {
      .name = "phimoe",
      .hf_classes = {"PhimoeForCausalLM", "PhiMoEForCausalLM"},
      .gguf_architectures = {"phimoe"},
      .norm = NormKind::kLayer,
      .default_theta = 1000000,
      .hf_model_type = "phimoe",
      .keys =
          {
              {Field::kExpertIntermediate, {"intermediate_size"}, "feed_forward_length", {}},
              {Field::kRouterJitter, {"router_jitter_noise"}, "", 0.01},
              {Field::kUseSlidingWindow, {}, "", 1},
          },
      .hf_defaults = {{Field::kVocabSize, 32064},
                      {Field::kHidden, 4096},
                      {Field::kLayers, 32},
                      {Field::kHeads, 32},
                      {Field::kKvHeads, 8},
                      {Field::kMaxPositions, 131072},
                      {Field::kNormEps, 1e-5},
                      {Field::kExperts, 16},
                      {Field::kExpertsPerToken, 2},
                      {Field::kExpertIntermediate, 6400}},
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
      .attention = {.window = WindowRule::kAllLayers, .rope_mscales = true},
      .router = {.score = RouterScore::kSparseMixer, .renormalize = false},
      .experts = {.layers = MoeLayerRule::kAll},
      .finish = Finish,
  };
}

}  // namespace colibri
