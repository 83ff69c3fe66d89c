// The table that every machine can run.
#include <math.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/tables.h"
#include "kernels/kernel_table.h"
#include "tensor/dequantize.h"

namespace colibri {
namespace {

// In order of their dependencies.
// clang-format off
#include "kernels/cpu/isa/simd_generic.inl.h"
#include "kernels/cpu/generic/math.inl.h"
#include "kernels/cpu/generic/vector_ops.inl.h"
#include "kernels/cpu/generic/matmul.inl.h"
#include "kernels/cpu/generic/table.inl.h"
// clang-format on

template <DType kType>
void Decode(const void* src, float* dst, size_t n) {
  DequantizeReference(kType, src, dst, n);
}

template <DType kType>
void MatMul(const MatMulArgs& args) {
  MatMulDecoded(args, Decode<kType>);
}

// Every type: those that are no weights fail in the reference decoder, as they should.
template <size_t... kTypes>
consteval KernelTable EveryType(KernelTable table, std::index_sequence<kTypes...>) {
  ((table.decode[kTypes] = Decode<static_cast<DType>(kTypes)>), ...);
  ((table.matmul[kTypes] = MatMul<static_cast<DType>(kTypes)>), ...);
  table.matmul[static_cast<size_t>(DType::kF32)] = MatMulF32;
  return table;
}

}  // namespace

constinit const KernelTable isa::kGeneric =
    EveryType(CommonEntries("generic"), std::make_index_sequence<kNumDTypes>());

}  // namespace colibri
