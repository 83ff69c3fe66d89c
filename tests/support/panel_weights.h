// support/panel_weights.h - stored weights with their panels and their exact values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "support/kernel_data.h"
#include "tensor/dequantize.h"
#include "tensor/packed.h"

namespace colibri::testing {

struct PanelWeights {
  PanelWeights(DType type, int32_t n_rows, int32_t n_cols, const std::vector<uint8_t>& stored)
      : dtype(type), rows(n_rows), cols(n_cols) {
    const size_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(cols));
    panel_bytes = PanelRowBytes(*FindPanelFormat(dtype), cols) * kPanelRows;
    const int32_t n_panels = (rows + kPanelRows - 1) / kPanelRows;
    panels = std::make_unique<uint8_t[]>(static_cast<size_t>(n_panels) * panel_bytes);
    for (int32_t p = 0; p < n_panels; ++p) {
      PackPanel(dtype, stored.data() + static_cast<size_t>(p) * kPanelRows * row_bytes, row_bytes,
                std::min(kPanelRows, rows - p * kPanelRows), cols,
                panels.get() + static_cast<size_t>(p) * panel_bytes);
    }
    values.resize(static_cast<size_t>(rows) * static_cast<size_t>(cols));
    DequantizeReference(dtype, stored.data(), values.data(), values.size());
  }
  PanelWeights(DType type, int32_t n_rows, int32_t n_cols, uint32_t seed)
      : PanelWeights(
            type, n_rows, n_cols,
            RandomWeights(type, static_cast<size_t>(n_rows) * static_cast<size_t>(n_cols), seed)) {}

  float value(int32_t row, int32_t col) const {
    return values[static_cast<size_t>(row) * static_cast<size_t>(cols) + static_cast<size_t>(col)];
  }

  DType dtype;
  int32_t rows, cols;
  size_t panel_bytes = 0;
  std::unique_ptr<uint8_t[]> panels;  // no slack: the sanitizer sees every read beyond
  std::vector<float> values;          // [rows, cols]
};

}  // namespace colibri::testing
