// tensor/matrix_view.h - a matrix of stored weights: rows in one element type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace colibri {

// Looks at memory that somebody else owns. Row-major, rows row_bytes apart.
struct MatrixView {
  DType dtype = DType::kF32;
  int32_t rows = 0;
  int32_t cols = 0;
  size_t row_bytes = 0;
  const uint8_t* data = nullptr;

  bool empty() const { return data == nullptr; }
  const uint8_t* row(int64_t r) const { return data + static_cast<size_t>(r) * row_bytes; }
};

}  // namespace colibri
