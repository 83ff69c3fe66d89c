// tensor/packed.h - weights as panels of rows: the form that the fast kernels read, for one token
// and for many.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace colibri {

// How a matrix lies in memory.
enum class Layout : uint8_t {
  kRows,    // row by row, as files hold it
  kPanels,  // panels of kPanelRows rows, see PanelFormat
};

inline constexpr int32_t kPanelRows = 32;
// Columns that share one scale of the activations.
inline constexpr int32_t kGroupColumns = 32;

// What stands for the weights of a panel.
enum class PanelNumbers : uint8_t { kCodes, kBFloat16, kFloat16, kFloat32 };

// Where the parts of a type lie in a panel. A panel is a run of blocks over the columns. A block
// holds, for all 32 rows, a header and then its groups of 32 columns; a group holds code planes and
// then scales. All planes are made of 32-bit words, word-major: a row is a lane of a vector, and a
// byte of a word is one column, so that a kernel that computes all 32 rows at once reads a panel in
// the order of memory, which the hardware's prefetch follows best. "Column 4 q + i" below is byte i
// of quad q.
//   bytes    [8][32] words: word q is quad q
//   nibbles  [4][32] words: word j holds quad 2 j in the low nibbles, quad 2 j + 1 in the high
//   pairs    [2][32] words: word j holds quad 4 j + m in bits 2 m and 2 m + 1
//   bits     [1][32] words: bit q of the word's bytes is quad q
//   scales   scale_bytes a row, [parts][32 rows]
//   header   n_header binary16 numbers a row, [n_header][32 rows]
//   bf16     [16][32] words: word j holds column 2 j in its lower half, column 2 j + 1 in the
//            upper; nothing else is in such a panel. Columns that fill the last group are zeros.
//   f16, f32 [columns][32] numbers, nothing else, for any number of columns
// A code is (nibble or byte) + (pair << pair_shift) + (bit << bit_shift), and a weight is
// scale * (code - zero) + minimum.
struct PanelFormat {
  int32_t block_columns = 0;  // 32 or 256: what the stored type's block holds, at least 32
  int32_t n_header = 0;
  bool has_bytes = false, has_nibbles = false, has_pairs = false, has_bits = false;
  int32_t pair_shift = 0, bit_shift = 0;
  int32_t scale_bytes = 0;  // of one row and group
  PanelNumbers numbers = PanelNumbers::kCodes;

  int32_t header_bytes() const { return n_header * 2 * kPanelRows; }
  int32_t nibble_offset() const { return 0; }
  int32_t pair_offset() const { return (has_bytes ? 1024 : 0) + (has_nibbles ? 512 : 0); }
  int32_t bit_offset() const { return pair_offset() + (has_pairs ? 256 : 0); }
  int32_t scale_offset() const { return bit_offset() + (has_bits ? 128 : 0); }
  // Of a weight that is a number of its own; 0 for codes.
  int32_t number_bytes() const {
    return numbers == PanelNumbers::kCodes ? 0 : numbers == PanelNumbers::kFloat32 ? 4 : 2;
  }
  int32_t group_bytes() const {
    return numbers == PanelNumbers::kCodes ? scale_offset() + scale_bytes * kPanelRows
                                           : kGroupColumns * number_bytes() * kPanelRows;
  }
  int32_t block_bytes() const {
    return header_bytes() + block_columns / kGroupColumns * group_bytes();
  }
};

// The panels of a type, or null where it has none and stays in rows.
const PanelFormat* FindPanelFormat(DType dtype);

// Bytes of one row's share of a panel of `cols` columns: a multiple of the format's block, where
// the panel holds codes; else any number.
size_t PanelRowBytes(const PanelFormat& format, int32_t cols);

// Packs n_rows <= 32 rows as stored in a file, row_bytes apart, into one panel of 32 rows; missing
// rows become zeros. `panel` holds 32 * PanelRowBytes bytes.
void PackPanel(DType dtype, const uint8_t* rows, size_t row_bytes, int32_t n_rows, int32_t cols,
               uint8_t* panel);

// Row `row` of a panel as float32: the bits that DequantizeReference gives for the stored row.
void UnpackPanelRow(DType dtype, const uint8_t* panel, int32_t row, int32_t cols, float* out);

// 32 activations of a token for an integer product: x[i] is about scale * q[i], with scale =
// max |x| / 127 and q rounded to nearest, ties to even. All zeros where max |x| is below 2^-120; a
// scale of NaN where an x is not finite.
struct alignas(64) ActivationGroup {
  int8_t q[32];
  float scale;
  int32_t negative_sum;          // of q
  int32_t negative_half_sum[2];  // of q[0..15] and q[16..31]
  float scaled_sum;              // scale times the sum of q
  float scaled_half_sum[2];
  float unused;
};
static_assert(sizeof(ActivationGroup) == 64);

// A row of k activations as bfloat16: whole groups of columns, padded with zeros, and behind them
// float32 sums of each group's two halves, what a weight's minimum is multiplied by.
constexpr size_t BFloat16RowElements(int32_t k) {
  return static_cast<size_t>((k + kGroupColumns - 1) / kGroupColumns) * kGroupColumns;
}
// From one such row to the next, in elements: columns and sums.
constexpr size_t BFloat16RowStride(int32_t k) {
  constexpr size_t kSumElements = 2 * sizeof(float) / sizeof(uint16_t);
  return BFloat16RowElements(k) / kGroupColumns * (kGroupColumns + kSumElements);
}

}  // namespace colibri
