// AVX2 with FMA and F16C.
#include <immintrin.h>
#include <math.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/tables.h"
#include "kernels/kernel_table.h"
#include "tensor/dequantize.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

// In order of their dependencies.
// clang-format off
#include "kernels/cpu/isa/simd_x86.inl.h"
#include "kernels/cpu/isa/simd_avx2.inl.h"
#include "kernels/cpu/isa/ints_avx2.inl.h"
#include "kernels/cpu/isa/dot_avx2.inl.h"
#include "kernels/cpu/generic/loops.inl.h"
#include "kernels/cpu/generic/math.inl.h"
#include "kernels/cpu/generic/vector_ops.inl.h"
#include "kernels/cpu/generic/matmul.inl.h"
#include "kernels/cpu/generic/panel_rows.inl.h"
#include "kernels/cpu/generic/panel_formats.inl.h"
#include "kernels/cpu/generic/panel_part.inl.h"
#include "kernels/cpu/generic/panel_matmul.inl.h"
#include "kernels/cpu/generic/pair_fma.inl.h"
#include "kernels/cpu/generic/bf16_matmul.inl.h"
#include "kernels/cpu/generic/float_matmul.inl.h"
#include "kernels/cpu/generic/code_matmul.inl.h"
#include "kernels/cpu/generic/round_row.inl.h"
#include "kernels/cpu/generic/attention.inl.h"
#include "kernels/cpu/generic/reference.inl.h"
#include "kernels/cpu/generic/blocks.inl.h"
#include "kernels/cpu/generic/fused.inl.h"
#include "kernels/cpu/generic/table.inl.h"
// clang-format on

}  // namespace

// The reference's decoders with this set's multiplication, for the types without a faster one.
constinit const KernelTable isa::kAvx2 = WithVectorDecoders(
    WithReferenceDecoders(CommonEntries("avx2"), std::make_index_sequence<kNumDTypes>()));

}  // namespace colibri
