// tensor/matrix_view.h - a matrix of stored weights: rows of one element type, or panels of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/packed.h"

namespace colibri {

// Rows of a slice are a multiple of this, so that no task's rows lie in two.
inline constexpr int32_t kSliceUnit = 64;

// The form of the activations that a matrix is multiplied by.
enum class ProductInput : uint8_t {
  kFloat32,     // a matrix in rows, or panels of float16 or float32: rows of float32
  kInt8Groups,  // panels: ActivationGroup
  kBFloat16,    // panels: rows as BFloat16RowStride says
};

// Looks at memory that somebody else owns. Row-major, rows row_bytes apart; in panels row_bytes is
// a row's share of its panel, so that panels begin where row() says of their first rows. Where a
// machine has several memory nodes, slices of slice_rows rows lie slice_stride apart, one on each.
struct MatrixView {
  DType dtype = DType::kF32;
  int32_t rows = 0;
  int32_t cols = 0;
  size_t row_bytes = 0;
  const uint8_t* data = nullptr;
  Layout layout = Layout::kRows;
  ProductInput input = ProductInput::kFloat32;
  int32_t slice_rows = 0;  // a multiple of kSliceUnit; 0: all rows lie together
  size_t slice_stride = 0;

  bool empty() const { return data == nullptr; }
  // Where row r begins; in panels r must be a multiple of kPanelRows.
  const uint8_t* row(int64_t r) const {
    if (slice_rows == 0) return data + static_cast<size_t>(r) * row_bytes;
    const int64_t slice = r / slice_rows;
    return data + static_cast<size_t>(slice) * slice_stride +
           static_cast<size_t>(r - slice * slice_rows) * row_bytes;
  }
  // The rows on a node: from the first to behind the last. All on node 0 where they lie together.
  int32_t SliceBegin(int32_t node) const {
    if (slice_rows == 0) return node == 0 ? 0 : rows;
    return SliceRow(node);
  }
  int32_t SliceEnd(int32_t node) const { return slice_rows == 0 ? rows : SliceRow(node + 1); }
  // What the matrix takes in memory.
  size_t bytes() const {
    const int32_t unit = layout == Layout::kPanels ? kPanelRows : 1;
    return static_cast<size_t>((rows + unit - 1) / unit * unit) * row_bytes;
  }
  // The first row of a slice, or behind the last row of all.
  int32_t SliceRow(int64_t slice) const {
    const int64_t row = slice * slice_rows;
    return row < rows ? static_cast<int32_t>(row) : rows;
  }
};

}  // namespace colibri
