// base/finite.h - whether values are numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace colibri {

// False for NaN and infinities, whose exponents have all bits set. Whole numbers: a sum of floats
// would be one long chain of additions.
inline bool AllFinite(const float* x, size_t n) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t found = 0;
  for (size_t i = 0; i < n; ++i)
    found |= (std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent ? 1u : 0u;
  return found == 0;
}

}  // namespace colibri
