// model/resolve.h - from a model's files to its family and its resolved configuration.
#pragma once

#include "base/log.h"
#include "base/status.h"
#include "format/model_files.h"
#include "model/arch_spec.h"
#include "model/config.h"
#include "model/config_reader.h"

namespace colibri {

// Caps on what a file may claim. They are far above every known model and keep sizes within the
// types that hold them.
inline constexpr int64_t kMaxVocab = 1 << 24;
inline constexpr int64_t kMaxHidden = 1 << 20;
inline constexpr int64_t kMaxLayers = 1 << 16;
inline constexpr int64_t kMaxHeads = 1 << 14;
inline constexpr int64_t kMaxExperts = 1 << 16;
inline constexpr int64_t kMaxIntermediate = 1 << 24;
inline constexpr int64_t kMaxHeadFloats = 1 << 24;  // of all heads of a token together
inline constexpr int64_t kMaxPositions = int64_t{1} << 30;

// The family of a model, by the class or architecture that its files name. Unsupported, with the
// list of those known, when there is none.
Result<const ArchSpec*> FindArchSpec(const ModelFiles& files);

// Every number of the forward pass, and one plan a layer. Values that the family does not know are
// errors.
Result<ModelConfig> ResolveConfig(const ConfigReader& reader, const ModelFiles& files,
                                  const Log& log);

// Rotations, in model/resolve_rope.cc.
//   head_dim  elements of a head that the rotation may take
Result<RopeSpec> ResolveRope(const ConfigReader& reader, int32_t head_dim, int32_t max_positions);
// What multiplies the scores of latent attention beyond 1/sqrt(d) (YaRN's mscale, squared).
Result<double> LatentScaleFactor(const ConfigReader& reader, const RopeSpec& rope);

}  // namespace colibri
