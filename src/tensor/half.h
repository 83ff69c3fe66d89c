// tensor/half.h - the 16- and 8-bit floats as float32, exactly, without any instruction set.
#pragma once

#include <bit>
#include <cstdint>

namespace colibri {

// IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits.
constexpr float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    // Subnormal: mantissa steps of 2^-24, which float32 holds as a normal number.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// The upper half of a float32.
constexpr float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// 1 sign, 4 exponent (bias 7), 3 mantissa bits; all ones is NaN, there is no infinity.
constexpr float Float8E4M3ToFloat(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t exponent = (bits >> 3) & 0xfu;
  const uint32_t mantissa = bits & 0x7u;
  if ((bits & 0x7fu) == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

// 1 sign, 5 exponent, 2 mantissa bits.
constexpr float Float8E5M2ToFloat(uint8_t bits) {
  return HalfToFloat(static_cast<uint16_t>(bits << 8));
}

}  // namespace colibri
