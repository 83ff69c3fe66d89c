// tensor/dequantize_blocks.h - one decoder a block type; dequantize.cc holds the table. Internal to
// tensor/.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "tensor/half.h"

namespace colibri::internal {

// Decodes one block: `block` holds the type's block_bytes, `out` its block_elements values.
using BlockDecoder = void (*)(const uint8_t* block, float* out);

// Little-endian loads from any alignment.
inline uint16_t Load16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | (p[1] << 8));
}
inline uint32_t Load32(const uint8_t* p) {
  return static_cast<uint32_t>(Load16(p)) | (static_cast<uint32_t>(Load16(p + 2)) << 16);
}
inline float LoadHalf(const uint8_t* p) {
  return HalfToFloat(Load16(p));
}

// dequantize_simple.cc: blocks of 32 or 64 with one or four scales, and the ternary types.
void DecodeQ4_0(const uint8_t* block, float* out);
void DecodeQ4_1(const uint8_t* block, float* out);
void DecodeQ5_0(const uint8_t* block, float* out);
void DecodeQ5_1(const uint8_t* block, float* out);
void DecodeQ8_0(const uint8_t* block, float* out);
void DecodeIq4Nl(const uint8_t* block, float* out);
void DecodeMxfp4(const uint8_t* block, float* out);
void DecodeNvfp4(const uint8_t* block, float* out);
void DecodeTq1_0(const uint8_t* block, float* out);
void DecodeTq2_0(const uint8_t* block, float* out);

// dequantize_k.cc: super-blocks of 256 with scales of their own for each 16 or 32.
void DecodeQ2_K(const uint8_t* block, float* out);
void DecodeQ3_K(const uint8_t* block, float* out);
void DecodeQ4_K(const uint8_t* block, float* out);
void DecodeQ5_K(const uint8_t* block, float* out);
void DecodeQ6_K(const uint8_t* block, float* out);
void DecodeIq4Xs(const uint8_t* block, float* out);

// dequantize_iq.cc: super-blocks of 256 whose groups are entries of a codebook.
void DecodeIq1S(const uint8_t* block, float* out);
void DecodeIq1M(const uint8_t* block, float* out);
void DecodeIq2Xxs(const uint8_t* block, float* out);
void DecodeIq2Xs(const uint8_t* block, float* out);
void DecodeIq2S(const uint8_t* block, float* out);
void DecodeIq3Xxs(const uint8_t* block, float* out);
void DecodeIq3S(const uint8_t* block, float* out);

// The 16 levels of iq4_nl and iq4_xs.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// Twice the values of e2m1, so that they are whole; the scale is halved in return.
inline constexpr int8_t kFp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Half of 2^(bits - 127).
inline float HalvedE8M0(uint8_t bits) {
  if (bits < 2) return std::bit_cast<float>(0x00200000u << bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits - 1) << 23);
}

// Half of an unsigned e4m3 scale; the NaN pattern counts as zero.
inline float HalvedUE4M3(uint8_t bits) {
  if (bits == 0 || bits == 0x7f) return 0.0f;
  const int exponent = (bits >> 3) & 0xf;
  const float mantissa = static_cast<float>(bits & 7);
  if (exponent == 0) return mantissa * 0x1p-10f;
  return std::bit_cast<float>(static_cast<uint32_t>(exponent - 8 + 127) << 23) *
         (1.0f + mantissa / 8.0f);
}

}  // namespace colibri::internal
