// tensor/dequantize_blocks.h - one decoder a block type; dequantize.cc holds the table. Internal to
// tensor/.
#pragma once

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

}  // namespace colibri::internal
