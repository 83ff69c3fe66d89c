// format/hf_config.h - config.json as flat metadata.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "format/metadata.h"

namespace colibri {

// What a configuration may ask of us.
inline constexpr uint64_t kMaxConfigBytes = 64 << 20;
inline constexpr size_t kMaxConfigKeys = 1 << 16;
inline constexpr size_t kMaxConfigKeyBytes = 1024;  // of a flat key

// Turns a JSON object into flat keys: {"a": {"b": 1}} becomes "a.b". Lists of one scalar kind
// become typed lists (whole and decimal numbers together are decimals), other lists RawJson; an
// empty list reads as a list of any kind. Python's Infinity, -Infinity and NaN are numbers. Fails
// with CorruptData when the text is no JSON object, is nested deeper than kMaxJsonDepth, gives a
// key twice, or holds an integer outside int64, with ResourceExhausted beyond the caps. `origin`
// names the text in errors and becomes the result's origin.
Result<Metadata> FlattenConfig(std::string_view json, std::string origin);

}  // namespace colibri
