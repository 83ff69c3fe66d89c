#include "tensor/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "support/kernel_data.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"

namespace colibri {
namespace {

using testing::RandomBlocks;
using testing::WeightDTypes;

std::vector<DType> PanelTypes() {
  std::vector<DType> out;
  for (const DType dtype : WeightDTypes()) {
    if (FindPanelFormat(dtype) != nullptr) out.push_back(dtype);
  }
  return out;
}

TEST(Packed, TheTypesWithPanelsAreThose) {
  std::string names;
  for (const DType dtype : PanelTypes()) names += std::string(DTypeName(dtype)) + " ";
  EXPECT_EQ(
      names,
      "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4 nvfp4 ");
}

// Nothing is requantised: every stored value comes back in every bit, whatever the block's bits.
TEST(Packed, EveryValueSurvivesBitForBit) {
  for (const DType dtype : PanelTypes()) {
    for (const int32_t n_rows : {1, 15, 16, 17, 32}) {
      const int32_t cols = 512;
      const size_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(cols));
      const std::vector<uint8_t> stored = RandomBlocks(dtype, static_cast<size_t>(n_rows) * cols,
                                                       7u + static_cast<uint32_t>(n_rows));
      std::vector<uint8_t> panel(PanelRowBytes(*FindPanelFormat(dtype), cols) * kPanelRows, 0xa5);
      PackPanel(dtype, stored.data(), row_bytes, n_rows, cols, panel.data());
      std::vector<float> expected(cols), actual(cols);
      for (int32_t r = 0; r < n_rows; ++r) {
        DequantizeReference(dtype, stored.data() + static_cast<size_t>(r) * row_bytes,
                            expected.data(), expected.size());
        UnpackPanelRow(dtype, panel.data(), r, cols, actual.data());
        for (int32_t c = 0; c < cols; ++c) {
          if (expected[c] != expected[c] && actual[c] != actual[c]) continue;  // both NaN
          ASSERT_EQ(std::memcmp(&expected[c], &actual[c], sizeof(float)), 0)
              << DTypeName(dtype) << " row " << r << " column " << c << ": " << expected[c]
              << " became " << actual[c];
        }
      }
    }
  }
}

TEST(Packed, MissingRowsAreZeros) {
  for (const DType dtype : PanelTypes()) {
    const int32_t cols = 256;
    const size_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(cols));
    const std::vector<uint8_t> stored = RandomBlocks(dtype, 3 * cols, 5);
    std::vector<uint8_t> panel(PanelRowBytes(*FindPanelFormat(dtype), cols) * kPanelRows, 0xa5);
    PackPanel(dtype, stored.data(), row_bytes, 3, cols, panel.data());
    std::vector<float> values(cols, 1.0f);
    UnpackPanelRow(dtype, panel.data(), 31, cols, values.data());
    // A scale of zero; an e8m0 has none, but 2^-128 times nothing is nothing as well for its codes.
    for (const float value : values) ASSERT_EQ(value, 0.0f) << DTypeName(dtype);
  }
}

TEST(Packed, Bfloat16RowsMayHaveAnyNumberOfColumns) {
  for (const int32_t cols : {1, 2, 31, 33, 63, 65, 100}) {
    const int32_t n_rows = 19;
    const size_t row_bytes = *DTypeBytes(DType::kBF16, static_cast<uint64_t>(cols));
    const std::vector<uint8_t> stored =
        RandomBlocks(DType::kBF16, static_cast<size_t>(n_rows * cols), 9);
    const size_t panel_bytes = PanelRowBytes(*FindPanelFormat(DType::kBF16), cols) * kPanelRows;
    const int32_t padded = (cols + 31) / 32 * 32;
    EXPECT_EQ(panel_bytes, static_cast<size_t>(padded) * 2 * kPanelRows);
    std::vector<uint8_t> panel(panel_bytes, 0xa5);
    PackPanel(DType::kBF16, stored.data(), row_bytes, n_rows, cols, panel.data());
    std::vector<float> values(static_cast<size_t>(padded));
    for (int32_t r = 0; r < kPanelRows; ++r) {
      UnpackPanelRow(DType::kBF16, panel.data(), r, padded, values.data());
      for (int32_t c = 0; c < padded; ++c) {
        uint16_t bits = 0;
        if (r < n_rows && c < cols)
          std::memcpy(&bits, &stored[static_cast<size_t>(r * cols + c) * 2], sizeof(bits));
        const float expected = BFloat16ToFloat(bits);
        ASSERT_EQ(std::memcmp(&values[static_cast<size_t>(c)], &expected, sizeof(float)), 0)
            << cols << " columns, row " << r << ", column " << c;
      }
    }
  }
}

TEST(Packed, FloatRowsMayHaveAnyNumberOfColumns) {
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    for (const int32_t cols : {1, 2, 31, 33, 63, 65, 100}) {
      const int32_t n_rows = 19;
      const size_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(cols));
      const std::vector<uint8_t> stored =
          RandomBlocks(dtype, static_cast<size_t>(n_rows * cols), 9);
      const size_t panel_bytes = PanelRowBytes(*FindPanelFormat(dtype), cols) * kPanelRows;
      EXPECT_EQ(panel_bytes, row_bytes * kPanelRows);
      std::vector<uint8_t> panel(panel_bytes, 0xa5);
      PackPanel(dtype, stored.data(), row_bytes, n_rows, cols, panel.data());
      std::vector<float> values(static_cast<size_t>(cols)), expected(static_cast<size_t>(cols));
      for (int32_t r = 0; r < kPanelRows; ++r) {
        UnpackPanelRow(dtype, panel.data(), r, cols, values.data());
        std::fill(expected.begin(), expected.end(), 0.0f);
        if (r < n_rows) {
          DequantizeReference(dtype, &stored[static_cast<size_t>(r) * row_bytes], expected.data(),
                              expected.size());
        }
        for (size_t c = 0; c < values.size(); ++c) {
          if (std::isnan(expected[c]) && std::isnan(values[c])) continue;
          ASSERT_EQ(values[c], expected[c])
              << DTypeName(dtype) << ", " << cols << " columns, row " << r << ", column " << c;
        }
      }
    }
  }
}

// What a packed model takes more than its file: nothing but a K-quant's unpacked 6-bit scales.
TEST(Packed, PanelsAreAsSmallAsTheirBlocks) {
  for (const DType dtype : PanelTypes()) {
    const size_t stored = *DTypeBytes(dtype, 256);
    const size_t packed = PanelRowBytes(*FindPanelFormat(dtype), 256);
    EXPECT_GE(packed, stored) << DTypeName(dtype);
    EXPECT_LE(packed, stored + 4) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace colibri
