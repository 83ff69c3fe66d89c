// AVX-512 with VNNI: the integer products alone, all else is AVX-512's.
#include <immintrin.h>

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
#include "kernels/cpu/isa/simd_x86.inl.h"
#include "kernels/cpu/isa/simd_avx512.inl.h"
#include "kernels/cpu/isa/ints_avx512.inl.h"
#include "kernels/cpu/isa/dot_avx512vnni.inl.h"
#include "kernels/cpu/generic/loops.inl.h"
#include "kernels/cpu/generic/panel_rows.inl.h"
#include "kernels/cpu/generic/panel_formats.inl.h"
#include "kernels/cpu/generic/panel_part.inl.h"
#include "kernels/cpu/generic/panel_matmul.inl.h"
// clang-format on

}  // namespace

constinit const KernelTable isa::kAvx512Vnni = PanelEntries("avx512vnni");

}  // namespace colibri
