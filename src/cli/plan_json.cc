#include "cli/plan_json.h"

#include <array>
#include <charconv>
#include <vector>

#include "base/strings.h"

namespace colibri::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* Name(NormKind kind) {
  switch (kind) {
    case NormKind::kRms:
      return "rms";
    case NormKind::kLayer:
      return "layer";
  }
  return "?";
}

const char* Name(MixerKind kind) {
  switch (kind) {
    case MixerKind::kGqa:
      return "gqa";
    case MixerKind::kMla:
      return "mla";
  }
  return "?";
}

const char* Name(QkNorm kind) {
  switch (kind) {
    case QkNorm::kNone:
      return "none";
    case QkNorm::kPerHead:
      return "per_head";
    case QkNorm::kFull:
      return "full";
  }
  return "?";
}

const char* Name(RopeLayout layout) {
  return layout == RopeLayout::kHalf ? "half" : "interleaved";
}

const char* Name(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kDynamic:
      return "dynamic";
    case RopeScaling::kYarn:
      return "yarn";
    case RopeScaling::kLongRope:
      return "longrope";
    case RopeScaling::kLlama3:
      return "llama3";
  }
  return "?";
}

const char* Name(GatedActivation activation) {
  switch (activation) {
    case GatedActivation::kSilu:
      return "silu";
    case GatedActivation::kGeluTanh:
      return "gelu_tanh";
    case GatedActivation::kGeluErf:
      return "gelu";
    case GatedActivation::kRelu2:
      return "relu2";
    case GatedActivation::kSwigluOai:
      return "swiglu_oai";
  }
  return "?";
}

const char* Name(RouterScore score) {
  switch (score) {
    case RouterScore::kSoftmax:
      return "softmax";
    case RouterScore::kSigmoid:
      return "sigmoid";
    case RouterScore::kSqrtSoftplus:
      return "sqrt_softplus";
    case RouterScore::kLogit:
      return "logit";
    case RouterScore::kSparseMixer:
      return "sparse_mixer";
  }
  return "?";
}

const char* Name(GroupScore score) {
  return score == GroupScore::kMax ? "max" : "top_two";
}

// The double that prints as the float does: 1e-06, not 9.999999974752427e-07.
double Shortest(float value) {
  std::array<char, 32> text;
  const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double out = value;
  std::from_chars(text.data(), end, out);
  return out;
}

void AddScaling(const RopeSpec& rope, Json& out) {
  switch (rope.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      out["factor"] = rope.factor;
      break;
    case RopeScaling::kDynamic:
      out["factor"] = rope.factor;
      if (rope.alpha != 0) out["alpha"] = rope.alpha;
      break;
    case RopeScaling::kYarn:
      out["factor"] = rope.factor;
      out["original_positions"] = rope.original_positions;
      out["beta_fast"] = rope.beta_fast;
      out["beta_slow"] = rope.beta_slow;
      out["truncate"] = rope.truncate;
      break;
    case RopeScaling::kLongRope:
      out["original_positions"] = rope.original_positions;
      out["short_attention_factor"] = rope.short_attention_factor;
      out["long_attention_factor"] = rope.long_attention_factor;
      break;
    case RopeScaling::kLlama3:
      out["factor"] = rope.factor;
      out["original_positions"] = rope.original_positions;
      out["low_freq_factor"] = rope.low_freq_factor;
      out["high_freq_factor"] = rope.high_freq_factor;
      break;
  }
  if (rope.attention_factor != 1) out["attention_factor"] = rope.attention_factor;
}

Json RopeJson(const RopeSpec& rope) {
  Json out = {{"layout", Name(rope.layout)},
              {"n_rotary", rope.n_rotary},
              {"theta", rope.theta},
              {"scaling", Name(rope.scaling)}};
  AddScaling(rope, out);
  return out;
}

Json AttentionJson(const AttentionPlan& plan) {
  Json out = {{"mixer", Name(plan.kind)},      {"n_heads", plan.n_heads},
              {"n_kv_heads", plan.n_kv_heads}, {"head_dim", plan.head_dim},
              {"v_head_dim", plan.v_head_dim}, {"scale", Shortest(plan.scale)}};
  if (plan.kind == MixerKind::kMla) {
    out["q_lora_rank"] = plan.q_lora_rank;
    out["kv_lora_rank"] = plan.kv_lora_rank;
    out["nope_dim"] = plan.nope_dim;
    out["rope_dim"] = plan.rope_dim;
  }
  if (plan.window > 0) out["window"] = plan.window;
  if (plan.has_sinks) out["sinks"] = true;
  if (plan.qk_norm != QkNorm::kNone) out["qk_norm"] = Name(plan.qk_norm);
  if (plan.qk_norm_after_rope) out["qk_norm_after_rope"] = true;
  if (plan.qkv_clip != 0) out["qkv_clip"] = Shortest(plan.qkv_clip);
  if (plan.rope >= 0) {
    out["rope"] = plan.rope;
  } else {
    out["rope"] = "none";
  }
  return out;
}

void AddRouter(const RouterSpec& router, Json& out) {
  out["n_experts"] = router.n_experts;
  out["n_selected"] = router.n_selected;
  out["score"] = Name(router.score);
  if (router.softmax_selected) out["softmax_selected"] = true;
  if (router.renormalize) out["renormalize"] = true;
  if (router.renormalize_epsilon != 0)
    out["renormalize_epsilon"] = Shortest(router.renormalize_epsilon);
  if (router.renormalize_floor != 0) out["renormalize_floor"] = Shortest(router.renormalize_floor);
  if (router.scale != 1) out["scale"] = Shortest(router.scale);
  if (router.n_groups > 1) {
    out["n_groups"] = router.n_groups;
    out["n_selected_groups"] = router.n_selected_groups;
    out["group_score"] = Name(router.group_score);
  }
  if (router.score == RouterScore::kSparseMixer) {
    out["sparse_mixer_jitter"] = Shortest(router.sparse_mixer_jitter);
  }
}

Json FfnJson(const FfnPlan& plan) {
  Json out;
  if (plan.is_moe()) {
    out["kind"] = "experts";
    AddRouter(plan.router, out);
    out["expert_intermediate"] = plan.expert_intermediate;
    if (plan.shared_intermediate > 0) out["shared_intermediate"] = plan.shared_intermediate;
    if (plan.shared_gate) out["shared_gate"] = true;
  } else {
    out["kind"] = "dense";
    out["intermediate"] = plan.dense_intermediate;
  }
  out["activation"] = Name(plan.activation.kind);
  if (plan.activation.kind == GatedActivation::kSwigluOai) {
    out["alpha"] = Shortest(plan.activation.alpha);
    out["limit"] = Shortest(plan.activation.limit);
  }
  return out;
}

}  // namespace

Json ConfigJson(const ModelConfig& config) {
  Json out = {{"family", config.family},
              {"architecture", config.architecture},
              {"vocab_size", config.vocab_size},
              {"hidden", config.hidden},
              {"n_layers", config.n_layers},
              {"max_positions", config.max_positions},
              {"norm", Name(config.norm)},
              {"norm_eps", Shortest(config.norm_eps)},
              {"tied_embeddings", config.tied_embeddings}};
  if (config.embedding_scale != 1) out["embedding_scale"] = Shortest(config.embedding_scale);
  if (config.residual_scale != 1) out["residual_scale"] = Shortest(config.residual_scale);
  if (config.logit_scale != 1) out["logit_scale"] = Shortest(config.logit_scale);
  out["ropes"] = Json::array();
  for (const RopeSpec& rope : config.ropes) out["ropes"].push_back(RopeJson(rope));
  if (config.bos_token_id >= 0) out["bos_token_id"] = config.bos_token_id;
  out["eos_token_ids"] = config.eos_token_ids;
  return out;
}

Json LayerJson(const LayerPlan& layer) {
  return {{"attention", AttentionJson(layer.attention)}, {"ffn", FfnJson(layer.ffn)}};
}

std::string OneLine(const Json& object) {
  std::vector<std::string> pieces;
  for (const auto& [key, value] : object.items()) {
    pieces.push_back(StrCat(key, " ", value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return StrJoin(pieces, ", ");
}

}  // namespace colibri::cli
