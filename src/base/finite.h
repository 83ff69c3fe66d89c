// base/finite.h - whether values are numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace colibri {

// Whether the magnitudes of all are below `limit`; false for NaN. Whole numbers, which order as the
// magnitudes do: a comparison of floats would wait for the one before.
inline bool AllBelow(const float* x, size_t n, float limit) {
  constexpr uint32_t kMagnitude = 0x7fffffff;
  const auto bound = std::bit_cast<uint32_t>(limit);
  uint32_t found = 0;
  for (size_t i = 0; i < n; ++i)
    found |= (std::bit_cast<uint32_t>(x[i]) & kMagnitude) >= bound ? 1u : 0u;
  return found == 0;
}

// False where one is NaN or infinite.
inline bool AllFinite(const float* x, size_t n) {
  return AllBelow(x, n, std::numeric_limits<float>::infinity());
}

}  // namespace colibri
