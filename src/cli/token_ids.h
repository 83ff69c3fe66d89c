// cli/token_ids.h - token ids as text, and the ids that stand in for text in measurements.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace colibri::cli {

// "1 2 3" or "1,2,3" (any mix of spaces, commas and line ends). InvalidArgument names the word that
// is no id; ids beyond the vocabulary are the engine's to refuse.
Result<std::vector<int32_t>> ParseTokenIds(std::string_view text);

// "1 2 3".
std::string FormatTokenIds(std::span<const int32_t> ids);

// n ids of a vocabulary, spread evenly over it; the same for the same seed.
std::vector<int32_t> SyntheticIds(int32_t n, int32_t vocab_size, uint64_t seed);

}  // namespace colibri::cli
