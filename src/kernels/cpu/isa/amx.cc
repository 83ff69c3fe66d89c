// AMX with INT8 and BF16: the products of panels by tiles; all else is that of AVX-512 with VNNI
// and BF16.
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/tables.h"
#include "kernels/kernel_table.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

// Where 8-bit products of as many tokens or more go through tiles. A group of 32 x 32 codes keeps
// AVX-512 VNNI's ports busy for 11 cycles a token; tiles leave 3 to 5 of these, and add about 30
// for decoding to memory and loading. Counted, not measured.
constexpr int32_t kFewestTileTokens = 8;
constexpr const KernelTable& kFewTokens = isa::kAvx512Vnni;

// In order of their dependencies.
// clang-format off
#include "kernels/cpu/isa/simd_x86.inl.h"
#include "kernels/cpu/isa/simd_avx512.inl.h"
#include "kernels/cpu/isa/ints_avx512.inl.h"
#include "kernels/cpu/generic/loops.inl.h"
#include "kernels/cpu/generic/tile_shapes.inl.h"
#include "kernels/cpu/isa/tiles_amx.inl.h"
#include "kernels/cpu/generic/panel_rows.inl.h"
#include "kernels/cpu/generic/panel_formats.inl.h"
#include "kernels/cpu/generic/tile_panel_matmul.inl.h"
#include "kernels/cpu/generic/tile_bf16_matmul.inl.h"
// clang-format on

consteval KernelTable Entries() {
  KernelTable table;
  table.name = "amx";
  AddTilePanelEntries(table);
  AddTileBf16Entries(table);
  return table;
}

}  // namespace

constinit const KernelTable isa::kAmx = Entries();

}  // namespace colibri
