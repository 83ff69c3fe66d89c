// The rotation of a model, from config.json in its two spellings or from GGUF.
#include <array>
#include <cmath>

#include "base/strings.h"
#include "model/resolve.h"

namespace colibri {
namespace {

struct ScalingName {
  std::string_view name;
  RopeScaling scaling;
};
constexpr std::array<ScalingName, 9> kScalingNames = {{
    {"default", RopeScaling::kNone},
    {"none", RopeScaling::kNone},
    {"linear", RopeScaling::kLinear},
    {"dynamic", RopeScaling::kDynamic},
    {"yarn", RopeScaling::kYarn},
    {"longrope", RopeScaling::kLongRope},
    {"su", RopeScaling::kLongRope},
    {"llama3", RopeScaling::kLlama3},
    {"", RopeScaling::kNone},
}};

Result<RopeScaling> ParseScaling(const ConfigReader& reader, std::string_view key,
                                 std::string_view name) {
  for (const ScalingName& row : kScalingNames) {
    if (row.name == name) return row.scaling;
  }
  return reader.UnknownValue(
      key, name, "the rope scaling types default, linear, dynamic, yarn, longrope, llama3");
}

double YarnMscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// Reads "<prefix><key>" with a default.
class Keys {
 public:
  Keys(const Metadata& metadata, std::string prefix)
      : metadata_(metadata), prefix_(std::move(prefix)) {}

  Result<double> Number(std::string_view key, double fallback) const {
    const std::string name = StrCat(prefix_, key);
    COLIBRI_ASSIGN_OR_RETURN(const std::optional<double> value, metadata_.GetDouble(name));
    if (value && !std::isfinite(*value))
      return InvalidArgument(StrCat(metadata_.origin(), ": ", name, " must be finite"));
    return value.value_or(fallback);
  }
  Result<bool> Flag(std::string_view key, bool fallback) const {
    COLIBRI_ASSIGN_OR_RETURN(const std::optional<bool> value,
                             metadata_.GetBool(StrCat(prefix_, key)));
    return value.value_or(fallback);
  }
  Result<int64_t> Positions(std::string_view key, int64_t fallback) const {
    COLIBRI_ASSIGN_OR_RETURN(const double value, Number(key, static_cast<double>(fallback)));
    if (value < 1 || value > static_cast<double>(kMaxPositions)) {
      return InvalidArgument(StrCat(metadata_.origin(), ": ", prefix_, key, " must be from 1 to ",
                                    kMaxPositions, ", is ", value));
    }
    return static_cast<int64_t>(value);
  }
  bool Has(std::string_view key) const { return metadata_.Has(StrCat(prefix_, key)); }
  const std::string& prefix() const { return prefix_; }

 private:
  const Metadata& metadata_;
  std::string prefix_;
};

Status CheckFactor(const ConfigReader& reader, const Keys& keys, double factor) {
  if (factor > 0) return Status();
  return InvalidArgument(StrCat(reader.metadata().origin(), ": ", keys.prefix(),
                                "factor must be above 0, is ", factor));
}

Result<std::vector<double>> Factors(const ConfigReader& reader, const Keys& keys,
                                    std::string_view key, int32_t n_rotary) {
  const std::string name = StrCat(keys.prefix(), key);
  COLIBRI_ASSIGN_OR_RETURN(std::optional<std::vector<double>> list,
                           reader.metadata().GetDoubles(name));
  const auto wanted = static_cast<size_t>(n_rotary) / 2;
  if (!list || list->size() != wanted) {
    return InvalidArgument(StrCat(reader.metadata().origin(), ": ", name, " must be a list of ",
                                  wanted, " numbers, has ", list ? list->size() : 0));
  }
  for (const double factor : *list) {
    if (!(factor > 0) || !std::isfinite(factor)) {
      return InvalidArgument(
          StrCat(reader.metadata().origin(), ": ", name, " must hold finite numbers above 0"));
    }
  }
  return std::move(*list);
}

Status ReadLongRope(const ConfigReader& reader, const Keys& keys, int32_t max_positions,
                    RopeSpec& spec) {
  COLIBRI_ASSIGN_OR_RETURN(spec.long_factors, Factors(reader, keys, "long_factor", spec.n_rotary));
  COLIBRI_ASSIGN_OR_RETURN(spec.short_factors,
                           Factors(reader, keys, "short_factor", spec.n_rotary));
  const double factor = keys.Has("factor") ? spec.factor
                                           : static_cast<double>(max_positions) /
                                                 static_cast<double>(spec.original_positions);
  const double inferred =
      factor <= 1 ? 1.0
                  : std::sqrt(1 + std::log(factor) /
                                      std::log(static_cast<double>(spec.original_positions)));
  COLIBRI_ASSIGN_OR_RETURN(spec.attention_factor, keys.Number("attention_factor", inferred));
  return Status();
}

// The dictionary of config.json that counts: rope_scaling, as hubs hold it, wherever it holds
// anything, else rope_parameters, as transformers 5 writes it.
std::string HfDictionary(const Metadata& metadata) {
  const auto first = metadata.values().lower_bound("rope_scaling.");
  const bool filled =
      first != metadata.values().end() && first->first.rfind("rope_scaling.", 0) == 0;
  return filled ? "rope_scaling." : "rope_parameters.";
}

bool HasHfDictionary(const Metadata& metadata) {
  return metadata.HasPrefix("rope_scaling.") || metadata.HasPrefix("rope_parameters.") ||
         metadata.Has("rope_parameters");
}

Status ReadYarn(const Keys& keys, RopeSpec& spec) {
  // A zero means the default, as no value does.
  COLIBRI_ASSIGN_OR_RETURN(const double beta_fast, keys.Number("beta_fast", 0));
  COLIBRI_ASSIGN_OR_RETURN(const double beta_slow, keys.Number("beta_slow", 0));
  if (beta_fast != 0) spec.beta_fast = beta_fast;
  if (beta_slow != 0) spec.beta_slow = beta_slow;
  COLIBRI_ASSIGN_OR_RETURN(spec.truncate, keys.Flag("truncate", true));
  COLIBRI_ASSIGN_OR_RETURN(const double mscale, keys.Number("mscale", 0));
  COLIBRI_ASSIGN_OR_RETURN(const double mscale_all_dim, keys.Number("mscale_all_dim", 0));
  const bool both = mscale != 0 && mscale_all_dim != 0;
  const double inferred =
      both ? YarnMscale(spec.factor, mscale) / YarnMscale(spec.factor, mscale_all_dim)
           : YarnMscale(spec.factor, 1);
  COLIBRI_ASSIGN_OR_RETURN(spec.attention_factor, keys.Number("attention_factor", inferred));
  return Status();
}

Status ReadHuggingFace(const ConfigReader& reader, int32_t max_positions, RopeSpec& spec) {
  const Metadata& metadata = reader.metadata();
  const AttentionSpec& attention = reader.spec().attention;
  if (attention.hf_rope_default && !HasHfDictionary(metadata)) {
    const RopeSpec sizes = spec;
    spec = *attention.hf_rope_default;
    spec.layout = sizes.layout;
    spec.n_rotary = sizes.n_rotary;
    spec.max_positions = sizes.max_positions;
    spec.attention_factor = YarnMscale(spec.factor, 1);
    COLIBRI_ASSIGN_OR_RETURN(spec.theta, Keys(metadata, "").Number("rope_theta", sizes.theta));
    return Status();
  }
  const Keys keys(metadata, HfDictionary(metadata));
  COLIBRI_ASSIGN_OR_RETURN(spec.theta, Keys(metadata, "").Number("rope_theta", spec.theta));
  COLIBRI_ASSIGN_OR_RETURN(spec.theta, keys.Number("rope_theta", spec.theta));
  const std::string type_key = StrCat(keys.prefix(), keys.Has("rope_type") ? "rope_type" : "type");
  COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::string> type, metadata.GetString(type_key));
  COLIBRI_ASSIGN_OR_RETURN(spec.scaling, ParseScaling(reader, type_key, type.value_or("default")));
  if (spec.scaling == RopeScaling::kNone) return Status();

  // Some files hold the original length beside the dictionary; it has priority there, but for
  // families whose dictionary has entries of its own (PhiMoE).
  const std::string_view original = "original_max_position_embeddings";
  COLIBRI_ASSIGN_OR_RETURN(spec.original_positions, keys.Positions(original, max_positions));
  if (!attention.rope_mscales || !keys.Has(original)) {
    COLIBRI_ASSIGN_OR_RETURN(spec.original_positions,
                             Keys(metadata, "").Positions(original, spec.original_positions));
  }
  COLIBRI_ASSIGN_OR_RETURN(spec.factor,
                           keys.Number("factor", static_cast<double>(max_positions) /
                                                     static_cast<double>(spec.original_positions)));
  COLIBRI_RETURN_IF_ERROR(CheckFactor(reader, keys, spec.factor));
  COLIBRI_ASSIGN_OR_RETURN(spec.alpha, keys.Number("alpha", 0));
  COLIBRI_ASSIGN_OR_RETURN(spec.low_freq_factor, keys.Number("low_freq_factor", 1));
  COLIBRI_ASSIGN_OR_RETURN(spec.high_freq_factor, keys.Number("high_freq_factor", 4));
  if (spec.scaling == RopeScaling::kYarn) COLIBRI_RETURN_IF_ERROR(ReadYarn(keys, spec));
  if (spec.scaling == RopeScaling::kLongRope)
    COLIBRI_RETURN_IF_ERROR(ReadLongRope(reader, keys, max_positions, spec));
  if (attention.rope_mscales && (keys.Has("short_mscale") || keys.Has("long_mscale"))) {
    spec.attention_factor = 1;
    COLIBRI_ASSIGN_OR_RETURN(spec.short_attention_factor, keys.Number("short_mscale", 1));
    COLIBRI_ASSIGN_OR_RETURN(spec.long_attention_factor, keys.Number("long_mscale", 1));
  }
  return Status();
}

// A tensor of factors, one a frequency (Llama 3.1 and LongRoPE in GGUF).
Result<std::vector<double>> FactorTensor(const ConfigReader& reader, const TensorInfo& tensor,
                                         int32_t n_rotary) {
  std::vector<float> values(static_cast<size_t>(n_rotary) / 2);
  if (tensor.dtype != DType::kF32 || tensor.shape.size() != 1 || tensor.shape[0] != values.size()) {
    return CorruptData(StrCat("tensor ", tensor.name, " must be f32 [", values.size(), "], is ",
                              DTypeName(tensor.dtype), " ", ShapeString(tensor.shape)));
  }
  COLIBRI_RETURN_IF_ERROR(reader.tensors().Read(
      tensor, 0, {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)}));
  for (const float value : values) {
    if (!(value > 0) || !std::isfinite(value))
      return CorruptData(StrCat("tensor ", tensor.name, " must hold finite numbers above 0"));
  }
  return std::vector<double>(values.begin(), values.end());
}

Status ReadGguf(const ConfigReader& reader, int32_t max_positions, RopeSpec& spec) {
  const Metadata& metadata = reader.metadata();
  const Keys keys(metadata, reader.GgufKey("rope."));
  COLIBRI_ASSIGN_OR_RETURN(spec.theta, keys.Number("freq_base", spec.theta));
  COLIBRI_ASSIGN_OR_RETURN(const std::optional<std::string> type,
                           metadata.GetString(StrCat(keys.prefix(), "scaling.type")));
  // The oldest files have a linear factor under a key of its own; a factor without a type is
  // linear.
  COLIBRI_ASSIGN_OR_RETURN(const double oldest, keys.Number("scale_linear", 1));
  COLIBRI_ASSIGN_OR_RETURN(spec.factor, keys.Number("scaling.factor", oldest));
  COLIBRI_RETURN_IF_ERROR(CheckFactor(reader, keys, spec.factor));
  COLIBRI_ASSIGN_OR_RETURN(spec.scaling,
                           ParseScaling(reader, StrCat(keys.prefix(), "scaling.type"),
                                        type.value_or(spec.factor != 1 ? "linear" : "none")));
  COLIBRI_ASSIGN_OR_RETURN(spec.original_positions,
                           keys.Positions("scaling.original_context_length", max_positions));
  COLIBRI_ASSIGN_OR_RETURN(spec.beta_fast, keys.Number("scaling.yarn_beta_fast", 32));
  COLIBRI_ASSIGN_OR_RETURN(spec.beta_slow, keys.Number("scaling.yarn_beta_slow", 1));
  spec.truncate = reader.spec().attention.yarn_truncate;
  COLIBRI_ASSIGN_OR_RETURN(const double attention_factor, keys.Number("scaling.attn_factor", 1));
  if (spec.scaling == RopeScaling::kYarn) {
    // Files with a log multiplier (DeepSeek) have equal mscale and mscale_all_dim: their ratio
    // is 1.
    spec.attention_factor = keys.Has("scaling.yarn_log_multiplier")
                                ? attention_factor
                                : attention_factor * YarnMscale(spec.factor, 1);
  }
  const TensorInfo* plain = reader.FindTensor(Role::kRopeFactors, 0);
  const TensorInfo* longs = reader.FindTensor(Role::kRopeLong, 0);
  const TensorInfo* shorts = reader.FindTensor(Role::kRopeShort, 0);
  if (plain != nullptr && spec.scaling == RopeScaling::kNone) {
    spec.scaling = RopeScaling::kLongRope;  // the same factors for every context
    COLIBRI_ASSIGN_OR_RETURN(spec.long_factors, FactorTensor(reader, *plain, spec.n_rotary));
    spec.short_factors = spec.long_factors;
  } else if (plain != nullptr) {
    return reader.UnknownValue(StrCat(keys.prefix(), "scaling.type"), type.value_or("linear"),
                               "none beside the tensor rope_freqs.weight");
  } else if (longs != nullptr && shorts != nullptr) {
    spec.scaling = RopeScaling::kLongRope;
    COLIBRI_ASSIGN_OR_RETURN(spec.long_factors, FactorTensor(reader, *longs, spec.n_rotary));
    COLIBRI_ASSIGN_OR_RETURN(spec.short_factors, FactorTensor(reader, *shorts, spec.n_rotary));
    spec.attention_factor = attention_factor;
  } else if (spec.scaling == RopeScaling::kLongRope) {
    return NotFound(StrCat(metadata.origin(),
                           ": longrope scaling needs the tensors rope_factors_long.weight and "
                           "rope_factors_short.weight"));
  } else if (spec.scaling == RopeScaling::kLlama3 || spec.scaling == RopeScaling::kDynamic) {
    return reader.UnknownValue(StrCat(keys.prefix(), "scaling.type"), *type,
                               "none, linear, yarn and longrope in GGUF");
  }
  return Status();
}

// How many leading elements of a head turn.
Result<int32_t> RotaryElements(const ConfigReader& reader, int32_t head_dim) {
  const AttentionSpec& attention = reader.spec().attention;
  if (attention.mixer == MixerKind::kMla) return head_dim;
  COLIBRI_ASSIGN_OR_RETURN(const int32_t n_rotary, reader.Integer(Field::kRotaryDim, 0, head_dim));
  if (reader.gguf()) return n_rotary > 0 ? n_rotary : head_dim;
  if (!attention.partial_rotary) return head_dim;
  // A fraction in the dictionary goes before one beside it, and both before a number of elements.
  const Keys keys(reader.metadata(), HfDictionary(reader.metadata()));
  double fraction = 1;
  if (keys.Has("partial_rotary_factor")) {
    COLIBRI_ASSIGN_OR_RETURN(fraction, keys.Number("partial_rotary_factor", 1));
  } else if (n_rotary > 0 && !reader.Has(Field::kRotaryFraction)) {
    return n_rotary;
  } else {
    COLIBRI_ASSIGN_OR_RETURN(fraction, reader.Number(Field::kRotaryFraction));
  }
  if (!(fraction > 0 && fraction <= 1)) {
    return InvalidArgument(StrCat(reader.metadata().origin(),
                                  ": partial_rotary_factor must be above 0 and at most 1, is ",
                                  fraction));
  }
  return static_cast<int32_t>(head_dim * fraction);
}

}  // namespace

Result<RopeSpec> ResolveRope(const ConfigReader& reader, int32_t head_dim, int32_t max_positions) {
  RopeSpec spec;
  const AttentionSpec& attention = reader.spec().attention;
  spec.layout = reader.gguf() ? attention.gguf_rope : attention.hf_rope;
  spec.theta = reader.spec().default_theta;
  spec.max_positions = max_positions;
  COLIBRI_ASSIGN_OR_RETURN(spec.n_rotary, RotaryElements(reader, head_dim));
  if (spec.n_rotary < 2 || spec.n_rotary % 2 != 0) {
    return InvalidArgument(StrCat(
        reader.metadata().origin(),
        ": the rotary part of a head must be an even number of elements, is ", spec.n_rotary));
  }
  COLIBRI_RETURN_IF_ERROR(reader.gguf() ? ReadGguf(reader, max_positions, spec)
                                        : ReadHuggingFace(reader, max_positions, spec));
  if (!(spec.theta > 1) || !std::isfinite(spec.theta)) {
    return InvalidArgument(
        StrCat(reader.metadata().origin(), ": the rope base must be above 1, is ", spec.theta));
  }
  if (spec.scaling == RopeScaling::kDynamic && spec.n_rotary < 4) {
    return InvalidArgument(StrCat(reader.metadata().origin(),
                                  ": dynamic rope scaling needs at least 4 rotary elements"));
  }
  // Whatever the settings are, each on its own may be in order and all together not.
  for (const int64_t context : {int64_t{1}, kMaxPositions}) {
    bool usable = std::isfinite(RopeAttentionFactor(spec, context));
    for (const float frequency : RopeInverseFrequencies(spec, context))
      usable &= std::isfinite(frequency);
    if (!usable) {
      return InvalidArgument(StrCat(reader.metadata().origin(),
                                    ": the rope settings give frequencies that are not finite"));
    }
  }
  return spec;
}

Result<double> LatentScaleFactor(const ConfigReader& reader, const RopeSpec& rope) {
  const Metadata& metadata = reader.metadata();
  if (rope.scaling == RopeScaling::kNone) return 1.0;
  double multiplier = 0;
  if (reader.gguf()) {
    const Keys keys(metadata, reader.GgufKey("rope.scaling."));
    COLIBRI_ASSIGN_OR_RETURN(multiplier, keys.Number("yarn_log_multiplier", 0));
    multiplier *= 10;  // stored with YaRN's 0.1 in it
  } else {
    const Keys keys(metadata, HfDictionary(metadata));
    COLIBRI_ASSIGN_OR_RETURN(multiplier, keys.Number("mscale_all_dim", 0));
  }
  if (multiplier == 0) return 1.0;
  const double mscale = YarnMscale(rope.factor, multiplier);
  return mscale * mscale;
}

}  // namespace colibri
