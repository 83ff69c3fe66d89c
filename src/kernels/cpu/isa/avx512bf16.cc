// AVX-512 with BF16: the products of bfloat16 alone, all else is that of AVX-512 with VNNI.
#include <immintrin.h>

#include <cstdint>
#include <cstring>
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
#include "kernels/cpu/isa/pair_avx512bf16.inl.h"
#include "kernels/cpu/generic/loops.inl.h"
#include "kernels/cpu/generic/panel_rows.inl.h"
#include "kernels/cpu/generic/panel_formats.inl.h"
#include "kernels/cpu/generic/bf16_matmul.inl.h"
#include "kernels/cpu/generic/code_matmul.inl.h"
// clang-format on

consteval KernelTable Entries() {
  KernelTable table;
  table.name = "avx512bf16";
  AddBf16Entries(table);
  AddCodeEntries(table);
  return table;
}

}  // namespace

constinit const KernelTable isa::kAvx512Bf16 = Entries();

}  // namespace colibri
