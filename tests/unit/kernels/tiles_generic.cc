// Emulated tiles with the generic set's vectors.
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

constexpr int32_t kFewestTileTokens = testing::kFewestEmulatedTokens;
constexpr const KernelTable& kFewTokens = isa::kGeneric;

// In order of their dependencies.
// clang-format off
#include "kernels/cpu/isa/simd_generic.inl.h"
#include "kernels/cpu/isa/ints_generic.inl.h"
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
  table.name = "tiles_generic";
  AddTilePanelEntries(table);
  AddTileBf16Entries(table);
  return table;
}

}  // namespace

constinit const KernelTable testing::kEmulatedTilesGeneric = Entries();

}  // namespace colibri
