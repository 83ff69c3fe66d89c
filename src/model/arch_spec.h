// model/arch_spec.h - a model family as data: its names, its configuration keys, its tensors, and
// the fixed points of its forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/config.h"

namespace colibri {

class ConfigReader;
class TensorSource;
class Metadata;

// What a configuration says, whatever it is called in a file.
enum class Field : uint8_t {
  kVocabSize,
  kHidden,
  kLayers,
  kMaxPositions,
  kNormEps,
  kHeads,
  kKvHeads,
  kHeadDim,
  kRotaryDim,       // elements of a head that turn
  kRotaryFraction,  // the same as a fraction of the head
  kAttentionBias,
  kTiedEmbeddings,
  kSlidingWindow,
  kUseSlidingWindow,
  kMaxWindowLayers,
  kQkvClip,
  kUseQkNorm,
  kAttentionScale,
  kEmbeddingScale,
  kResidualScale,
  kLogitScale,
  kDenseIntermediate,
  kExperts,
  kExpertsPerToken,
  kExpertIntermediate,
  kSharedExperts,
  kSharedIntermediate,
  kRenormalize,
  kRenormalizeFloor,
  kRoutedScale,
  kGroups,
  kSelectedGroups,
  kGatingFunction,   // GGUF's number
  kScoringFunction,  // HF's name
  kTopkMethod,
  kLeadingDenseLayers,
  kSparseStep,
  kMoeStart,
  kMoeEnd,
  kMoeInterval,
  kRouterJitter,
  kSwigluAlpha,
  kSwigluLimit,
  kQLoraRank,
  kKvLoraRank,
  kNopeDim,
  kRopeDim,
  kValueDim,
  kExtraLayers,  // multi-token prediction layers behind the last one; their tensors are not used
  kRopeInterleave,
};

// Fields whose null in config.json means "none" or "by the other sizes": they read as 0. Any other
// null is as good as no key.
bool NullIsZero(Field field);

// Where a field stands: any of hf (the first that is present) in config.json, gguf behind
// "<architecture>." in GGUF. Empty: not there.
struct KeyRow {
  Field field;
  std::vector<std::string_view> hf;
  std::string_view gguf;
  // Used when the file has no such key; without one the key is required when it is asked for.
  std::optional<double> fallback;
  // The same for GGUF, where that differs.
  std::optional<double> gguf_fallback = {};
};

// What a family's configuration class in transformers takes where config.json has no such key.
struct FieldDefault {
  Field field;
  double value;
};

// What a tensor is to the forward pass.
enum class Role : uint8_t {
  kEmbedding,
  kFinalNorm,
  kHead,
  kAttentionNorm,
  kFfnNorm,
  kQ,
  kK,
  kV,
  kO,
  kQNorm,
  kKNorm,
  kSinks,
  kQa,
  kQaNorm,
  kQb,
  kKvA,
  kKvANorm,
  kKvB,  // keys and values of all heads in one matrix
  kKb,   // keys alone, transposed, a matrix a head (GGUF)
  kVb,   // values alone, a matrix a head (GGUF)
  kDenseGate,
  kDenseUp,
  kDenseDown,
  kRouter,
  kSelectionBias,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertGateUp,    // all experts' gate and up in one tensor
  kExpertDownAll,   // all experts' down in one tensor
  kExpertGateBias,  // a row an expert
  kExpertUpBias,
  kExpertDownBias,
  kExpertGateUpBias,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedRouter,  // the sigmoid gate of the shared expert
  kRopeFactors,   // GGUF: a divisor a frequency
  kRopeLong,
  kRopeShort,
};

// Names with {l} for the layer and {e} for the expert. A name that ends in ".weight" may have a
// ".bias" beside it.
struct TensorRow {
  Role role;
  std::string_view hf;
  std::string_view gguf;
};

// How experts lie in an HF tensor of all experts.
enum class FusedExperts : uint8_t {
  kNone,
  kHalves,             // [experts, 2 * intermediate, hidden]: gate rows, then up rows
  kInterleavedColumns  // [experts, hidden, 2 * intermediate] transposed, gate and up alternate
                       // (gpt-oss)
};

enum class WindowRule : uint8_t {
  kNone,
  kAllLayers,        // where a window is given
  kLayerTypes,       // config's layer_types; without it, layers from max_window_layers on
  kEvenLayerTypes,   // config's layer_types; without it, layers 0, 2, 4, ... (gpt-oss)
  kQwen2MoeDefault,  // config's layer_types; without it, even layers below max_window_layers
};

enum class MoeLayerRule : uint8_t {
  kNone,          // dense family
  kAll,           // every layer
  kLeadingDense,  // all but the first
  kSparseStep,    // every n-th, but those listed in mlp_only_layers
  kInterval,      // ERNIE's start, end and interval
};

struct AttentionSpec {
  MixerKind mixer = MixerKind::kGqa;
  RopeLayout hf_rope = RopeLayout::kHalf;
  RopeLayout gguf_rope = RopeLayout::kHalf;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_after_rope = false;
  bool sinks = false;
  bool output_bias =
      true;  // where the configuration asks for biases, the output projection has one too
  WindowRule window = WindowRule::kNone;
  bool yarn_truncate = true;    // GGUF does not say
  bool partial_rotary = false;  // the rotary fraction of a head counts
  bool rope_mscales = false;    // short_mscale and long_mscale of a scaled rotation count
  // The scaling of a config.json that says nothing about it.
  std::optional<RopeSpec> hf_rope_default = {};
};

struct RouterFamily {
  RouterScore score = RouterScore::kSoftmax;
  bool softmax_selected = false;
  std::optional<bool> renormalize = {};  // fixed by the family; else the configuration says
  float renormalize_epsilon = 0;
  GroupScore group_score = GroupScore::kMax;
  bool selection_bias = false;
};

struct ExpertFamily {
  MoeLayerRule layers = MoeLayerRule::kNone;
  FusedExperts hf_fused = FusedExperts::kNone;
  GatedActivation activation = GatedActivation::kSilu;
  bool shared_gate = false;
  bool shared_intermediate_is_per_expert =
      true;  // shared intermediate = number of shared experts * expert intermediate
};

struct ArchSpec {
  std::string_view name;
  std::vector<std::string_view> hf_classes = {};
  std::vector<std::string_view> gguf_architectures = {};
  NormKind norm = NormKind::kRms;
  double default_theta = 10000;
  std::string_view hf_model_type = {};         // names the family where config.json lists no class
  std::vector<KeyRow> keys = {};               // stand before the common ones
  std::vector<FieldDefault> hf_defaults = {};  // stand before the rows' fallbacks
  std::vector<TensorRow> tensors =
      {};  // stand beside the common ones; a role given here replaces the common row
  AttentionSpec attention = {};
  RouterFamily router = {};
  ExpertFamily experts = {};
  // Beginnings of names of tensors that plain decoding does not use.
  std::vector<std::string_view> unused_tensors = {};
  // Tells families of one GGUF architecture apart; null: takes all.
  std::function<bool(const Metadata&, const TensorSource&)> gguf_when = {};
  // What no table says: called last, may change the plans. Null for most.
  std::function<Status(const ConfigReader&, ModelConfig&)> finish = {};
};

// The keys and tensors that most families share.
const std::vector<KeyRow>& CommonKeys();
const std::vector<TensorRow>& CommonTensors();

// The name of a role's tensor in a format; empty when the family has none there.
std::string_view TensorName(const ArchSpec& spec, Role role, bool gguf);

}  // namespace colibri
