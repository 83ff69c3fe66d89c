#include "model/resolve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/strings.h"
#include "model/registry.h"
#include "moe/routing.h"

namespace colibri {
namespace {

constexpr int64_t kMaxInt = (int64_t{1} << 31) - 1;

struct ActivationName {
  std::string_view name;
  GatedActivation activation;
};
constexpr std::array<ActivationName, 10> kActivations = {{
    {"silu", GatedActivation::kSilu},
    {"swish", GatedActivation::kSilu},
    {"gelu", GatedActivation::kGeluErf},
    {"gelu_python", GatedActivation::kGeluErf},
    {"gelu_pytorch_tanh", GatedActivation::kGeluTanh},
    {"gelu_python_tanh", GatedActivation::kGeluTanh},
    {"gelu_new", GatedActivation::kGeluTanh},
    {"gelu_fast", GatedActivation::kGeluTanh},
    {"gelu_accurate", GatedActivation::kGeluTanh},
    {"relu2", GatedActivation::kRelu2},
}};

Status ReadActivation(const ConfigReader& reader, GatedActivationArgs& out) {
  out.kind = reader.spec().experts.activation;
  COLIBRI_ASSIGN_OR_RETURN(const double alpha, reader.Number(Field::kSwigluAlpha));
  COLIBRI_ASSIGN_OR_RETURN(const double limit, reader.Number(Field::kSwigluLimit));
  out.alpha = static_cast<float>(alpha);
  out.limit = static_cast<float>(limit);
  COLIBRI_ASSIGN_OR_RETURN(const std::string name,
                           reader.Text({"hidden_act", "hidden_activation"}, "silu"));
  for (const ActivationName& row : kActivations) {
    if (row.name != name) continue;
    if (out.kind == GatedActivation::kSilu) out.kind = row.activation;
    return Status();
  }
  return reader.UnknownValue("hidden_act", name, "silu, gelu, gelu_pytorch_tanh, relu2");
}

// The size of a dimension of a tensor that must be there, at most `max`; in GGUF the tensors say
// what keys of older files do not.
Result<int32_t> TensorDimension(const ConfigReader& reader, Role role, int32_t layer,
                                size_t dimension, size_t rank, int64_t max) {
  const TensorInfo* tensor = reader.FindTensor(role, layer);
  if (tensor == nullptr)
    return NotFound(
        StrCat(reader.metadata().origin(), ": tensor ", reader.NameOf(role, layer), " is missing"));
  if (tensor->shape.size() != rank || tensor->shape[dimension] < 1 ||
      tensor->shape[dimension] > static_cast<uint64_t>(max)) {
    return CorruptData(StrCat("tensor ", tensor->name, " must have ", rank,
                              " dimensions, dimension ", dimension, " from 1 to ", max, ", is ",
                              ShapeString(tensor->shape)));
  }
  return static_cast<int32_t>(tensor->shape[dimension]);
}

Status ReadModel(const ConfigReader& reader, ModelConfig& config) {
  config.norm = reader.spec().norm;
  COLIBRI_ASSIGN_OR_RETURN(config.n_layers, reader.Integer(Field::kLayers, 1, kMaxLayers));
  COLIBRI_ASSIGN_OR_RETURN(const int32_t extra, reader.Integer(Field::kExtraLayers, 0, kMaxLayers));
  if (reader.gguf()) {
    // GGUF counts the prediction layers in.
    if (extra >= config.n_layers)
      return InvalidArgument(StrCat(reader.metadata().origin(), ": ", extra,
                                    " prediction layers of ", config.n_layers));
    config.n_layers -= extra;
  }
  COLIBRI_ASSIGN_OR_RETURN(config.hidden, reader.Integer(Field::kHidden, 1, kMaxHidden));
  if (reader.gguf()) {
    COLIBRI_ASSIGN_OR_RETURN(config.vocab_size,
                             TensorDimension(reader, Role::kEmbedding, 0, 0, 2, kMaxVocab));
  } else {
    COLIBRI_ASSIGN_OR_RETURN(config.vocab_size, reader.Integer(Field::kVocabSize, 1, kMaxVocab));
  }
  COLIBRI_ASSIGN_OR_RETURN(config.max_positions,
                           reader.Integer(Field::kMaxPositions, 1, kMaxPositions));
  COLIBRI_ASSIGN_OR_RETURN(const double eps, reader.Number(Field::kNormEps));
  if (!(eps >= 0 && eps < 1))
    return InvalidArgument(
        StrCat(reader.metadata().origin(), ": the norm epsilon must be from 0 to 1, is ", eps));
  config.norm_eps = static_cast<float>(eps);
  if (reader.gguf()) {
    config.tied_embeddings = !reader.HasTensor(Role::kHead, 0);
  } else {
    COLIBRI_ASSIGN_OR_RETURN(config.tied_embeddings, reader.Flag(Field::kTiedEmbeddings));
  }
  COLIBRI_ASSIGN_OR_RETURN(const double embedding, reader.Number(Field::kEmbeddingScale));
  COLIBRI_ASSIGN_OR_RETURN(const double residual, reader.Number(Field::kResidualScale));
  COLIBRI_ASSIGN_OR_RETURN(const double logit, reader.Number(Field::kLogitScale));
  config.embedding_scale = static_cast<float>(embedding);
  config.residual_scale = static_cast<float>(residual);
  config.logit_scale = static_cast<float>(logit);
  return Status();
}

Status ReadTokens(const ConfigReader& reader, const ModelFiles& files, ModelConfig& config) {
  std::set<int64_t> eos;
  const auto add = [&](const Metadata& metadata, std::string_view key) -> Status {
    COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> ids, metadata.GetInts(key));
    if (ids) eos.insert(ids->begin(), ids->end());
    return Status();
  };
  std::optional<int64_t> bos;
  if (reader.gguf()) {
    for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"}) {
      COLIBRI_RETURN_IF_ERROR(add(files.config, key));
    }
    COLIBRI_ASSIGN_OR_RETURN(bos, files.config.GetInt("tokenizer.ggml.bos_token_id"));
  } else {
    COLIBRI_RETURN_IF_ERROR(add(files.config, "eos_token_id"));
    COLIBRI_RETURN_IF_ERROR(add(files.generation_config, "eos_token_id"));
    COLIBRI_ASSIGN_OR_RETURN(bos, files.config.GetInt("bos_token_id"));
  }
  const auto is_token = [&](int64_t id) { return id >= 0 && id < config.vocab_size; };
  for (const int64_t id : eos) {
    if (is_token(id)) config.eos_token_ids.push_back(static_cast<int32_t>(id));
  }
  if (bos && is_token(*bos)) config.bos_token_id = static_cast<int32_t>(*bos);
  return Status();
}

Result<AttentionPlan> ReadAttention(const ConfigReader& reader, ModelConfig& config) {
  const AttentionSpec& spec = reader.spec().attention;
  AttentionPlan plan;
  plan.kind = spec.mixer;
  plan.qk_norm = spec.qk_norm;
  plan.qk_norm_after_rope = spec.qk_norm_after_rope;
  plan.has_sinks = spec.sinks;
  COLIBRI_ASSIGN_OR_RETURN(plan.n_heads, reader.Integer(Field::kHeads, 1, kMaxHeads));
  if (spec.mixer == MixerKind::kMla) {
    plan.n_kv_heads = 1;
    COLIBRI_ASSIGN_OR_RETURN(plan.q_lora_rank, reader.Integer(Field::kQLoraRank, 0, kMaxHidden));
    COLIBRI_ASSIGN_OR_RETURN(plan.kv_lora_rank, reader.Integer(Field::kKvLoraRank, 1, kMaxHidden));
    COLIBRI_ASSIGN_OR_RETURN(plan.rope_dim, reader.Integer(Field::kRopeDim, 2, kMaxHidden));
    if (reader.gguf()) {
      // Older files have the sizes of a head under the plain keys.
      const auto size = [&](std::string_view key, std::string_view older) -> Result<int64_t> {
        for (const std::string_view name : {key, older}) {
          COLIBRI_ASSIGN_OR_RETURN(const std::optional<int64_t> value,
                                   reader.metadata().GetInt(reader.GgufKey(name)));
          if (value && *value > 0 && *value <= kMaxHidden) return *value;
        }
        return NotFound(StrCat(reader.metadata().origin(), ": latent attention needs the key ",
                               reader.GgufKey(key)));
      };
      COLIBRI_ASSIGN_OR_RETURN(const int64_t key_dim,
                               size("attention.key_length_mla", "attention.key_length"));
      COLIBRI_ASSIGN_OR_RETURN(const int64_t value_dim,
                               size("attention.value_length_mla", "attention.value_length"));
      if (key_dim <= plan.rope_dim) {
        return InvalidArgument(StrCat(reader.metadata().origin(), ": a key of ", key_dim,
                                      " elements has no room for ", plan.rope_dim, " rotary ones"));
      }
      plan.nope_dim = static_cast<int32_t>(key_dim) - plan.rope_dim;
      plan.v_head_dim = static_cast<int32_t>(value_dim);
    } else {
      COLIBRI_ASSIGN_OR_RETURN(plan.nope_dim, reader.Integer(Field::kNopeDim, 1, kMaxHidden));
      COLIBRI_ASSIGN_OR_RETURN(plan.v_head_dim, reader.Integer(Field::kValueDim, 1, kMaxHidden));
    }
    plan.head_dim = plan.nope_dim + plan.rope_dim;
    COLIBRI_ASSIGN_OR_RETURN(RopeSpec rope,
                             ResolveRope(reader, plan.rope_dim, config.max_positions));
    COLIBRI_ASSIGN_OR_RETURN(const double factor, LatentScaleFactor(reader, rope));
    config.ropes.push_back(std::move(rope));
    plan.scale = static_cast<float>(factor / std::sqrt(static_cast<double>(plan.head_dim)));
  } else {
    COLIBRI_ASSIGN_OR_RETURN(plan.n_kv_heads, reader.Integer(Field::kKvHeads, 0, kMaxHeads));
    if (plan.n_kv_heads == 0) plan.n_kv_heads = plan.n_heads;
    if (plan.n_heads % plan.n_kv_heads != 0) {
      return InvalidArgument(StrCat(reader.metadata().origin(), ": ", plan.n_heads,
                                    " heads cannot share ", plan.n_kv_heads, " key-value heads"));
    }
    COLIBRI_ASSIGN_OR_RETURN(plan.head_dim, reader.Integer(Field::kHeadDim, 0, kMaxHidden));
    if (plan.head_dim == 0) {
      if (config.hidden % plan.n_heads != 0) {
        return InvalidArgument(StrCat(reader.metadata().origin(), ": hidden size ", config.hidden,
                                      " is no multiple of ", plan.n_heads, " heads"));
      }
      plan.head_dim = config.hidden / plan.n_heads;
    }
    plan.v_head_dim = plan.head_dim;
    COLIBRI_ASSIGN_OR_RETURN(RopeSpec rope,
                             ResolveRope(reader, plan.head_dim, config.max_positions));
    config.ropes.push_back(std::move(rope));
    COLIBRI_ASSIGN_OR_RETURN(const double scale, reader.Number(Field::kAttentionScale));
    plan.scale = static_cast<float>(
        scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(plan.head_dim)));
    COLIBRI_ASSIGN_OR_RETURN(const double clip, reader.Number(Field::kQkvClip));
    plan.qkv_clip = static_cast<float>(clip);
  }
  // The rows of all heads together are counted with 32 bits.
  const int64_t widest =
      std::max({plan.head_dim, plan.v_head_dim, plan.kv_lora_rank + plan.rope_dim});
  if (plan.n_heads * widest > kMaxHeadFloats) {
    return InvalidArgument(StrCat(reader.metadata().origin(), ": ", plan.n_heads, " heads of ",
                                  widest, " elements exceed ", kMaxHeadFloats, " together"));
  }
  plan.rope = 0;
  return plan;
}

// The window of each layer; 0: all positions before it.
Result<std::vector<int32_t>> ReadWindows(const ConfigReader& reader, const ModelConfig& config) {
  const auto n = static_cast<size_t>(config.n_layers);
  std::vector<int32_t> windows(n, 0);
  const WindowRule rule = reader.spec().attention.window;
  if (rule == WindowRule::kNone) return windows;
  COLIBRI_ASSIGN_OR_RETURN(const bool use, reader.Flag(Field::kUseSlidingWindow));
  COLIBRI_ASSIGN_OR_RETURN(const int32_t window, reader.Integer(Field::kSlidingWindow, 0, kMaxInt));
  COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::vector<std::string>> types,
                           reader.metadata().GetStrings("layer_types"));
  COLIBRI_ASSIGN_OR_RETURN(const double from, reader.Number(Field::kMaxWindowLayers));
  // In GGUF a window is there only where it is meant.
  const bool active = window > 0 && (use || (reader.gguf() && reader.Has(Field::kSlidingWindow)));
  const bool by_types = types && !reader.gguf() && rule != WindowRule::kAllLayers;
  if (by_types && types->size() < n)
    return reader.UnknownValue("layer_types", StrCat("a list of ", types->size()),
                               StrCat("one entry a layer, ", n));
  for (size_t l = 0; l < n; ++l) {
    bool sliding = rule == WindowRule::kAllLayers;
    if (by_types) {
      const std::string& type = (*types)[l];
      if (type != "sliding_attention" && type != "full_attention") {
        return reader.UnknownValue("layer_types", type, "sliding_attention and full_attention");
      }
      sliding = type == "sliding_attention";
      if (sliding && window < 1)
        return reader.UnknownValue("sliding_window", StrCat(window),
                                   "a window of at least 1 for the sliding layers");
    } else if (rule == WindowRule::kEvenLayerTypes) {
      sliding = l % 2 == 0;
    } else if (rule == WindowRule::kQwen2MoeDefault) {
      sliding = l % 2 == 0 && static_cast<double>(l) < from;
    } else if (rule == WindowRule::kLayerTypes) {
      sliding = static_cast<double>(l) >= from;
    }
    if (sliding && (active || by_types)) windows[l] = window;
  }
  return windows;
}

Result<std::vector<bool>> ReadMoeLayers(const ConfigReader& reader, const ModelConfig& config) {
  const auto n = static_cast<size_t>(config.n_layers);
  std::vector<bool> moe(n, false);
  const MoeLayerRule rule = reader.spec().experts.layers;
  if (rule == MoeLayerRule::kNone) return moe;
  if (reader.gguf()) {
    // The tensors say it for every family.
    for (size_t l = 0; l < n; ++l)
      moe[l] = reader.HasTensor(Role::kRouter, static_cast<int32_t>(l));
    return moe;
  }
  switch (rule) {
    case MoeLayerRule::kNone:
      break;
    case MoeLayerRule::kAll:
      moe.assign(n, true);
      break;
    case MoeLayerRule::kLeadingDense: {
      COLIBRI_ASSIGN_OR_RETURN(const int32_t dense,
                               reader.Integer(Field::kLeadingDenseLayers, 0, kMaxLayers));
      COLIBRI_ASSIGN_OR_RETURN(const std::optional<int64_t> every,
                               reader.metadata().GetInt("moe_layer_freq"));
      if (every && *every != 1) return reader.UnknownValue("moe_layer_freq", StrCat(*every), "1");
      for (size_t l = static_cast<size_t>(dense); l < n; ++l) moe[l] = true;
      break;
    }
    case MoeLayerRule::kSparseStep: {
      COLIBRI_ASSIGN_OR_RETURN(const int32_t step,
                               reader.Integer(Field::kSparseStep, 1, kMaxLayers));
      for (size_t l = 0; l < n; ++l) moe[l] = (l + 1) % static_cast<size_t>(step) == 0;
      COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> dense,
                               reader.metadata().GetInts("mlp_only_layers"));
      for (const int64_t l : dense.value_or(std::vector<int64_t>{})) {
        if (l >= 0 && l < config.n_layers) moe[static_cast<size_t>(l)] = false;
      }
      break;
    }
    case MoeLayerRule::kInterval: {
      COLIBRI_ASSIGN_OR_RETURN(const int32_t start,
                               reader.Integer(Field::kMoeStart, 0, kMaxLayers));
      COLIBRI_ASSIGN_OR_RETURN(int32_t end, reader.Integer(Field::kMoeEnd, -1, kMaxLayers));
      COLIBRI_ASSIGN_OR_RETURN(const int32_t interval,
                               reader.Integer(Field::kMoeInterval, 1, kMaxLayers));
      if (end < 0) end = config.n_layers - 1;
      for (int32_t l = 0; l < config.n_layers; ++l)
        moe[static_cast<size_t>(l)] = (l + 1) % interval == 0 && l >= start && l <= end;
      break;
    }
  }
  return moe;
}

Result<RouterSpec> ReadRouter(const ConfigReader& reader, int32_t layer) {
  const RouterFamily& family = reader.spec().router;
  RouterSpec router;
  router.score = family.score;
  router.softmax_selected = family.softmax_selected;
  router.group_score = family.group_score;
  router.renormalize_epsilon = family.renormalize_epsilon;
  COLIBRI_ASSIGN_OR_RETURN(router.n_experts, reader.Integer(Field::kExperts, 1, kMaxExperts));
  COLIBRI_ASSIGN_OR_RETURN(router.n_selected,
                           reader.LayerInteger(Field::kExpertsPerToken, layer, 0, kMaxInt));
  if (family.renormalize) {
    router.renormalize = *family.renormalize;
  } else {
    COLIBRI_ASSIGN_OR_RETURN(router.renormalize, reader.Flag(Field::kRenormalize));
  }
  COLIBRI_ASSIGN_OR_RETURN(const double floor, reader.Number(Field::kRenormalizeFloor));
  COLIBRI_ASSIGN_OR_RETURN(const double scale, reader.Number(Field::kRoutedScale));
  router.renormalize_floor = static_cast<float>(floor);
  router.scale = static_cast<float>(scale);
  COLIBRI_ASSIGN_OR_RETURN(router.n_groups, reader.Integer(Field::kGroups, 0, kMaxExperts));
  COLIBRI_ASSIGN_OR_RETURN(router.n_selected_groups,
                           reader.Integer(Field::kSelectedGroups, 0, kMaxExperts));
  if (router.n_groups == 0) router.n_groups = router.n_selected_groups = 1;
  if (reader.gguf()) {
    COLIBRI_ASSIGN_OR_RETURN(const int32_t gating, reader.Integer(Field::kGatingFunction, 0, 255));
    const bool sigmoid = router.score == RouterScore::kSigmoid;
    // 1 softmax, 2 sigmoid, 3 softmax over the selected ones
    const int32_t expected = sigmoid ? 2 : family.softmax_selected ? 3 : 1;
    if (gating != 0 && gating != expected && !(gating == 1 && !sigmoid)) {
      return reader.UnknownValue(reader.GgufKey("expert_gating_func"), StrCat(gating),
                                 StrCat(expected));
    }
  }
  return router;
}

Status ReadFeedForward(const ConfigReader& reader, ModelConfig& config, const Log& log) {
  GatedActivationArgs activation;
  COLIBRI_RETURN_IF_ERROR(ReadActivation(reader, activation));
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<bool> moe, ReadMoeLayers(reader, config));
  if (reader.gguf() && !reader.Has(Field::kGatingFunction) &&
      reader.spec().router.score == RouterScore::kSigmoid) {
    log.Warning(StrCat(reader.metadata().origin(), ": ", reader.GgufKey("expert_gating_func"),
                       " is missing; family ", reader.spec().name, " routes by sigmoid"));
  }
  for (int32_t l = 0; l < config.n_layers; ++l) {
    FfnPlan& plan = config.layers[static_cast<size_t>(l)].ffn;
    plan.activation = activation;
    if (!moe[static_cast<size_t>(l)]) {
      if (reader.gguf()) {
        COLIBRI_ASSIGN_OR_RETURN(plan.dense_intermediate, TensorDimension(reader, Role::kDenseUp, l,
                                                                          0, 2, kMaxIntermediate));
      } else {
        COLIBRI_ASSIGN_OR_RETURN(plan.dense_intermediate,
                                 reader.Integer(Field::kDenseIntermediate, 1, kMaxIntermediate));
      }
      continue;
    }
    COLIBRI_ASSIGN_OR_RETURN(plan.router, ReadRouter(reader, l));
    if (reader.gguf()) {
      COLIBRI_ASSIGN_OR_RETURN(
          plan.expert_intermediate,
          TensorDimension(reader, Role::kExpertDown, l, 2, 3, kMaxIntermediate));
      if (reader.HasTensor(Role::kSharedUp, l)) {
        COLIBRI_ASSIGN_OR_RETURN(
            plan.shared_intermediate,
            TensorDimension(reader, Role::kSharedUp, l, 0, 2, kMaxIntermediate));
      }
    } else {
      COLIBRI_ASSIGN_OR_RETURN(plan.expert_intermediate,
                               reader.Integer(Field::kExpertIntermediate, 1, kMaxIntermediate));
      if (reader.spec().experts.shared_intermediate_is_per_expert) {
        COLIBRI_ASSIGN_OR_RETURN(const int32_t shared,
                                 reader.Integer(Field::kSharedExperts, 0, kMaxExperts));
        const int64_t size = static_cast<int64_t>(shared) * plan.expert_intermediate;
        if (size > kMaxIntermediate)
          return InvalidArgument(
              StrCat(reader.metadata().origin(), ": ", shared, " shared experts are too many"));
        plan.shared_intermediate = static_cast<int32_t>(size);
      } else {
        COLIBRI_ASSIGN_OR_RETURN(plan.shared_intermediate,
                                 reader.Integer(Field::kSharedIntermediate, 0, kMaxIntermediate));
      }
    }
    plan.shared_gate = reader.spec().experts.shared_gate && plan.shared_intermediate > 0;
  }
  return Status();
}

std::string KnownNames() {
  std::vector<std::string> names;
  for (const ArchSpec& spec : AllArchSpecs()) names.emplace_back(spec.name);
  return StrJoin(names, ", ");
}

}  // namespace

Result<const ArchSpec*> FindArchSpec(const ModelFiles& files) {
  const bool gguf = files.format == ModelFormat::kGguf;
  std::vector<std::string> names;
  if (gguf) {
    COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::string> name,
                             files.config.GetString("general.architecture"));
    if (name) names.push_back(*name);
  } else {
    COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::vector<std::string>> classes,
                             files.config.GetStrings("architectures"));
    if (classes) names = *classes;
    if (names.empty()) {
      COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::string> type,
                               files.config.GetString("model_type"));
      for (const ArchSpec& spec : AllArchSpecs()) {
        if (type && spec.hf_model_type == *type) return &spec;
      }
    }
  }
  if (names.empty()) {
    return NotFound(StrCat(files.config.origin(), ": the key ",
                           gguf ? "general.architecture" : "architectures", " is missing"));
  }
  for (const ArchSpec& spec : AllArchSpecs()) {
    const auto& known = gguf ? spec.gguf_architectures : spec.hf_classes;
    if (std::find(known.begin(), known.end(), names[0]) == known.end()) continue;
    if (gguf && spec.gguf_when && !spec.gguf_when(files.config, *files.tensors)) continue;
    return &spec;
  }
  return Unsupported(StrCat(files.config.origin(), ": architecture \"", Printable(names[0]),
                            "\" is not known; known families: ", KnownNames()));
}

Result<ModelConfig> ResolveConfig(const ConfigReader& reader, const ModelFiles& files,
                                  const Log& log) {
  ModelConfig config;
  config.family = reader.spec().name;
  config.format = files.tensors->format();
  if (reader.gguf()) {
    COLIBRI_ASSIGN_OR_RETURN(const auto name, files.config.GetString("general.architecture"));
    config.architecture = name.value_or("");
  } else {
    COLIBRI_ASSIGN_OR_RETURN(const auto classes, files.config.GetStrings("architectures"));
    config.architecture = classes && !classes->empty() ? classes->front() : "";
    COLIBRI_ASSIGN_OR_RETURN(const auto method,
                             files.config.GetString("quantization_config.quant_method"));
    if (method && *method != "mxfp4") {
      return Unsupported(
          StrCat(files.config.origin(), ": weights quantised by \"", Printable(*method),
                 "\" are not read; known are unquantised and mxfp4 folders, and GGUF files"));
    }
  }
  COLIBRI_RETURN_IF_ERROR(ReadModel(reader, config));
  COLIBRI_RETURN_IF_ERROR(ReadTokens(reader, files, config));
  config.layers.resize(static_cast<size_t>(config.n_layers));
  COLIBRI_ASSIGN_OR_RETURN(const AttentionPlan attention, ReadAttention(reader, config));
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<int32_t> windows, ReadWindows(reader, config));
  for (size_t l = 0; l < config.layers.size(); ++l) {
    config.layers[l].attention = attention;
    config.layers[l].attention.window = windows[l];
  }
  COLIBRI_RETURN_IF_ERROR(ReadFeedForward(reader, config, log));
  if (reader.spec().finish) COLIBRI_RETURN_IF_ERROR(reader.spec().finish(reader, config));
  for (size_t l = 0; l < config.layers.size(); ++l) {
    if (!config.layers[l].ffn.is_moe()) continue;
    Status valid = ValidateRouterSpec(config.layers[l].ffn.router);
    if (!valid.ok())
      return std::move(valid).WithContext(StrCat(files.config.origin(), ": layer ", l));
  }
  return config;
}

}  // namespace colibri
