#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/half.h"
#include "tensor/iq_grids.h"

namespace colibri {
namespace {

// What the bits of a small float say, from the definition.
double FromDefinition(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const bool negative = ((bits >> (exponent_bits + mantissa_bits)) & 1u) != 0;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias);
  return negative ? -magnitude : magnitude;
}

TEST(Half, EveryFiniteValueIsExact) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7c00u) == 0x7c00u) continue;
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    ASSERT_EQ(static_cast<double>(value), FromDefinition(bits, 5, 10)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000u) != 0) << bits;
  }
}

TEST(Half, InfinityAndNanStayWhatTheyAre) {
  EXPECT_EQ(HalfToFloat(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e01)));
}

TEST(Float8, EveryFiniteValueIsExact) {
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    const uint8_t byte = static_cast<uint8_t>(bits);
    if ((bits & 0x7fu) == 0x7f) {
      EXPECT_TRUE(std::isnan(Float8E4M3ToFloat(byte)));
    } else {
      EXPECT_EQ(static_cast<double>(Float8E4M3ToFloat(byte)), FromDefinition(bits, 4, 3)) << bits;
    }
    if ((bits & 0x7cu) != 0x7c) {
      EXPECT_EQ(static_cast<double>(Float8E5M2ToFloat(byte)), FromDefinition(bits, 5, 2)) << bits;
    }
  }
  EXPECT_EQ(Float8E4M3ToFloat(0x7e), 448.0f);
}

TEST(Dequantize, PlainTypesDecodeFromAnyAlignment) {
  const double wide = -1.5;
  std::vector<uint8_t> bytes(9);
  std::memcpy(bytes.data() + 1, &wide, 8);
  float value = 0;
  DequantizeReference(DType::kF64, bytes.data() + 1, &value, 1);
  EXPECT_EQ(value, -1.5f);
  const float narrow = 3.25f;
  std::memcpy(bytes.data() + 1, &narrow, 4);
  DequantizeReference(DType::kF32, bytes.data() + 1, &value, 1);
  EXPECT_EQ(value, 3.25f);
  bytes[1] = 0x7e;
  DequantizeReference(DType::kF8_E4M3, bytes.data() + 1, &value, 1);
  EXPECT_EQ(value, 448.0f);
}

// Every byte pattern is a valid block: no index may leave its codebook.
TEST(Dequantize, AnyBytesDecodeWithinTheCodebooks) {
  std::vector<uint8_t> block(300);
  std::vector<float> values(256);
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DTypeInfo& info = GetDTypeInfo(static_cast<DType>(i));
    if (!info.is_weight) continue;
    for (uint32_t round = 0; round < 300; ++round) {
      uint32_t state = round * 2654435761u;
      for (uint8_t& byte : block) {
        state = state * 1664525u + 1013904223u;
        byte = round == 0 ? 0xff : static_cast<uint8_t>(state >> 24);
      }
      DequantizeReference(info.dtype, block.data(), values.data(), info.block_elements);
    }
  }
}

TEST(Dequantize, AZeroScaleGivesZeros) {
  std::vector<uint8_t> block(300, 0);
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DTypeInfo& info = GetDTypeInfo(static_cast<DType>(i));
    // An all-zero mxfp4 block has the smallest scale, and zero codes.
    if (!info.is_weight) continue;
    std::vector<float> values(info.block_elements, 1.0f);
    DequantizeReference(info.dtype, block.data(), values.data(), info.block_elements);
    for (const float value : values) EXPECT_EQ(value, 0.0f) << info.name;
  }
}

TEST(IqSigns, AlwaysFlipAnEvenNumberOfValues) {
  for (uint32_t bits = 0; bits < 128; ++bits) {
    EXPECT_EQ(std::popcount(IqSigns(bits)) % 2, 0);
    EXPECT_EQ(IqSigns(bits) & 0x7fu, bits);
  }
}

}  // namespace
}  // namespace colibri
