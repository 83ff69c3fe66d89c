// kernels/kernel_table.h - the arithmetic of the forward pass as one table of functions for each
// instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/kv_panel.h"
#include "tensor/dtype.h"
#include "tensor/packed.h"

namespace colibri {

// Rows of weights times rows of activations: out[t][r] = sum over c of w[r][c] * x[t][c], in
// float32.
struct MatMulArgs {
  const void* w;  // n_rows rows of k elements in the stored type, w_row_bytes apart
  size_t w_row_bytes;
  int32_t n_rows;
  int32_t k;       // a multiple of the type's block_elements
  const float* x;  // rows of k float32, x_stride floats apart
  size_t x_stride;
  const int32_t* x_rows;  // [n_tokens] which row of x is token t; null: row t
  int32_t n_tokens;
  float* out;  // out[t * out_stride + r]; overwritten
  size_t out_stride;
  float* scratch;  // MatMulScratchFloats(k) floats of this thread's own, 64-byte aligned
};

// What products of panels (tensor/packed.h) have in common.
struct PanelProductArgs {
  const uint8_t* w;       // panels one after the other, the first row a panel's first
  int32_t n_rows;         // the last panel may be cut short
  int32_t k;              // a multiple of the format's block_columns; panels without codes: any
  const int32_t* x_rows;  // [n_tokens] which row of x is token t; null: row t
  int32_t n_tokens;
  float* out;  // out[row * out_stride + r] where row is out_rows[t], or t where that is null
  size_t out_stride;
  const int32_t* out_rows;
  const float* bias;        // [n_rows] added to each product; or null
  const float* out_weight;  // null: out is overwritten; else out_weight[t] times it is added, fused
  const uint8_t* next;      // what this thread will read next, to be asked for early; or null
};

// Panels of quantised weights times rows of 8-bit activations.
struct PanelMatMulArgs : PanelProductArgs {
  const ActivationGroup* x;  // rows of k / 32 groups, x_stride groups apart
  size_t x_stride;
};

// Panels times rows of bfloat16 activations.
struct Bf16MatMulArgs : PanelProductArgs {
  const uint16_t* x;  // rows as BFloat16RowStride says, x_stride elements apart
  size_t x_stride;
};

// Panels of float16 or float32 times rows of float32 activations.
struct FloatMatMulArgs : PanelProductArgs {
  const float* x;  // rows of k float32, x_stride floats apart
  size_t x_stride;
};

// Weight rows that a matmul decodes at a time.
inline constexpr int32_t kMatMulScratchRows = 8;
// Tokens whose sums it keeps open at a time, and the most lanes that a sum has.
inline constexpr int32_t kMatMulTokenBlock = 48;
inline constexpr int32_t kMatMulMaxLanes = 16;
// Decoded rows, each padded to whole 64-byte lines, and the open sums.
inline size_t MatMulScratchFloats(int32_t k) {
  const size_t row = (static_cast<size_t>(k) + 15) / 16 * 16;
  const size_t sums = static_cast<size_t>(kMatMulTokenBlock) * kMatMulMaxLanes;
  return static_cast<size_t>(kMatMulScratchRows) * (row + sums);
}

// What a gated expert computes between its two matrices.
enum class GatedActivation : uint8_t {
  kSilu,       // silu(gate) * up
  kGeluTanh,   // gelu with the tanh approximation, times up
  kGeluErf,    // exact gelu, times up
  kRelu2,      // relu(gate)^2 * up
  kSwigluOai,  // gate' = min(gate, limit), up' = clamp(up, -limit, limit): (up' + 1) * gate' *
               // sigmoid(alpha * gate')
};
struct GatedActivationArgs {
  GatedActivation kind;
  float alpha = 1.702f;  // kSwigluOai alone
  float limit = 7.0f;    // kSwigluOai alone
};

// One instruction set's functions. Every entry of a selected table is set, but those of
// panel_matmul, bf16_matmul and float_matmul for types without such panels. All are pure, allocate
// nothing, need no alignment but the scratch's, and may run on any number of threads.
//
// The rule that guarantee 1 rests on: the bits of an output element depend on its own inputs and on
// the table alone, never on how many rows, tokens or positions the same call computes, nor on where
// they lie.
struct KernelTable {
  const char* name = nullptr;  // "generic", "avx512vnni": what COLIBRI_FORCE_ISA names

  // Decodes n elements (whole blocks) to float32, bit-equal to DequantizeReference.
  using DecodeFn = void (*)(const void* src, float* dst, size_t n);
  std::array<DecodeFn, kNumDTypes> decode{};

  using MatMulFn = void (*)(const MatMulArgs& args);
  std::array<MatMulFn, kNumDTypes> matmul{};

  // Null for types without panels. The integer sums are exact and the float ones have one order, so
  // that sets with a fused multiply-add agree in every bit.
  using PanelMatMulFn = void (*)(const PanelMatMulArgs& args);
  std::array<PanelMatMulFn, kNumDTypes> panel_matmul{};
  // k activations, a multiple of 32, as groups for panel_matmul; the same bits in every set.
  void (*quantize_row)(const float* x, int32_t k, ActivationGroup* out) = nullptr;

  // Set for float16 and float32. Each column is one fused multiply-add, in order.
  using FloatMatMulFn = void (*)(const FloatMatMulArgs& args);
  std::array<FloatMatMulFn, kNumDTypes> float_matmul{};

  // Set for all other types with panels. A column of odd number and the one before it are two fused
  // multiply-adds to a float32 sum, the odd one first, in order of such pairs: over all columns of
  // a bfloat16 panel, over those with one scale of a quantised one. AVX-512 BF16 takes denormal
  // factors, and sums that become denormal, for zero. So does AMX, which adds the columns of a
  // bfloat16 panel 32 at a time, in its instruction's own order, for every number of tokens.
  using Bf16MatMulFn = void (*)(const Bf16MatMulArgs& args);
  std::array<Bf16MatMulFn, kNumDTypes> bf16_matmul{};
  // k activations as BFloat16RowElements(k) bfloat16: to the nearest, ties to even, so that what is
  // too large becomes infinity; NaN stays NaN. sums: those of each 16 columns. The same bits in
  // every set.
  void (*round_row)(const float* x, int32_t k, uint16_t* out, float* sums) = nullptr;

  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; weight may be null (all ones). out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n, float* out) = nullptr;
  // out[i] = (x[i] - mean) / sqrt(variance + eps) * weight[i] + bias[i]; weight and bias may be
  // null. out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, size_t n,
                     float* out) = nullptr;

  // out[i] = activation(gate[i], up[i]). out may be gate or up.
  void (*gated_activation)(const GatedActivationArgs& args, const float* gate, const float* up,
                           size_t n, float* out) = nullptr;

  // x[i] = exp(x[i] - max), and the sum of these in a fixed order: what attend does to scores.
  float (*exp_sum)(float* x, size_t n, float max) = nullptr;

  // y[i] += a * x[i], fused.
  void (*axpy)(float a, const float* x, size_t n, float* y) = nullptr;

  // Attention with one chunk of a cache: see AttendArgs. One fused multiply-add a product, in order
  // of the columns for a score, of the positions for a value.
  using AttendFn = void (*)(const AttendArgs& args);
  std::array<AttendFn, kNumKvTypes> attend{};
  // Writes a position's row of dim elements into a panel of keys or of values, 0 <= position < 32,
  // each value rounded to the nearest that the type has. One that is not finite, or too large for
  // the type, is read as one that is not finite.
  using StorePanelFn = void (*)(const float* row, int32_t dim, int32_t position, uint8_t* panel);
  std::array<StorePanelFn, kNumKvTypes> store_keys{};
  std::array<StorePanelFn, kNumKvTypes> store_values{};
  // y[i] = a * x[i] + b * y[i]: merges the answers of two chunks.
  void (*blend)(float a, const float* x, float b, size_t n, float* y) = nullptr;
};

}  // namespace colibri
