// The kernels of kernels/cpu/generic/tile_*.inl.h with tile registers made of plain C++, as sparse
// tables: what AMX runs, on machines without it.
#pragma once

#include "kernels/kernel_table.h"

namespace colibri::testing {

// With the generic set's vectors; as in the real set, less than some tokens are left to the
// vectors' own products.
extern const KernelTable kEmulatedTilesGeneric;
inline constexpr int kFewestEmulatedTokens = 5;
#ifdef COLIBRI_TEST_TILES_AVX512
// With the vectors that the real set has, for AVX-512 alone; every number of tokens takes tiles.
extern const KernelTable kEmulatedTilesAvx512;
#endif

}  // namespace colibri::testing
