// aarch64 with products of unsigned and signed bytes: the integer products alone, all else is
// neon's.
#include <arm_neon.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/isa/tables.h"
#include "kernels/kernel_table.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

// In order of their dependencies.
// clang-format off
#include "kernels/cpu/isa/simd_neon.inl.h"
#include "kernels/cpu/isa/ints_neon.inl.h"
#include "kernels/cpu/isa/dot_i8mm.inl.h"
#include "kernels/cpu/generic/loops.inl.h"
#include "kernels/cpu/generic/panel_rows.inl.h"
#include "kernels/cpu/generic/panel_formats.inl.h"
#include "kernels/cpu/isa/panel_part_neondot.inl.h"
#include "kernels/cpu/generic/panel_matmul.inl.h"
// clang-format on

}  // namespace

constinit const KernelTable isa::kI8mm = PanelEntries("i8mm");

}  // namespace colibri
