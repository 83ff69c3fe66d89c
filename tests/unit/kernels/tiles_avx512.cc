// Emulated tiles with AVX-512's vectors.
#include <immintrin.h>
#include <math.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/tables.h"
#include "kernels/emulated_tiles.h"
#include "kernels/kernel_table.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

constexpr int32_t kFewestTileTokens = 1;
constexpr const KernelTable& kFewTokens = isa::kAvx512;

// In order of their dependencies.
// clang-format off
#include "kernels/cpu/isa/simd_x86.inl.h"
#include "kernels/cpu/isa/simd_avx512.inl.h"
#include "kernels/cpu/isa/ints_avx512.inl.h"
#include "kernels/cpu/generic/loops.inl.h"
#include "kernels/cpu/generic/tile_shapes.inl.h"
#include "kernels/tiles_emulated.inl.h"
#include "kernels/cpu/generic/panel_rows.inl.h"
#include "kernels/cpu/generic/panel_formats.inl.h"
#include "kernels/cpu/generic/tile_panel_matmul.inl.h"
#include "kernels/cpu/generic/tile_bf16_matmul.inl.h"
// clang-format on

consteval KernelTable Entries() {
  KernelTable table;
  table.name = "tiles_avx512";
  AddTilePanelEntries(table);
  AddTileBf16Entries(table);
  return table;
}

}  // namespace

constinit const KernelTable testing::kEmulatedTilesAvx512 = Entries();

}  // namespace colibri
