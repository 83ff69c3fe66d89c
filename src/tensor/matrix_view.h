// tensor/matrix_view.h - a matrix of stored weights: rows of one element type, or panels of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/packed.h"

namespace colibri {

// The form of the activations that a matrix is multiplied by.
enum class ProductInput : uint8_t {
  kFloat32,     // a matrix in rows
  kInt8Groups,  // panels: ActivationGroup
  kBFloat16,    // panels: rows as BFloat16RowStride says
};

// Looks at memory that somebody else owns. Row-major, rows row_bytes apart; in panels row_bytes is
// a row's share of its panel, so that panels begin where row() says of their first rows.
struct MatrixView {
  DType dtype = DType::kF32;
  int32_t rows = 0;
  int32_t cols = 0;
  size_t row_bytes = 0;
  const uint8_t* data = nullptr;
  Layout layout = Layout::kRows;
  ProductInput input = ProductInput::kFloat32;

  bool empty() const { return data == nullptr; }
  // Where row r begins; in panels r must be a multiple of kPanelRows.
  const uint8_t* row(int64_t r) const { return data + static_cast<size_t>(r) * row_bytes; }
  // What the matrix takes in memory.
  size_t bytes() const {
    const int32_t unit = layout == Layout::kPanels ? kPanelRows : 1;
    return static_cast<size_t>((rows + unit - 1) / unit * unit) * row_bytes;
  }
};

}  // namespace colibri
