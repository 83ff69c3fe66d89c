// tensor/dequantize.h - the reference decoders: what a stored block stands for, in plain scalar
// code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace colibri {

// Writes the n float32 values that `src` stands for.
//   src   [DTypeBytes(dtype, n)] bytes, any alignment; dtype must have is_weight
//   dst   [n] float32
//   n     a multiple of the type's block_elements
// Exact: every value is the float32 that ggml's own reference gives. Allocates nothing, safe from
// many threads.
void DequantizeReference(DType dtype, const void* src, float* dst, size_t n);

}  // namespace colibri
