#include "tensor/dequantize_blocks.h"

namespace colibri::internal {
namespace {

// The low halves of n bytes are the first n values, the high halves the next n.
template <int kBytes, typename Value>
void ForEachNibble(const uint8_t* bytes, float* out, Value value) {
  for (int i = 0; i < kBytes; ++i) {
    out[i] = value(bytes[i] & 0xf);
    out[i + kBytes] = value(bytes[i] >> 4);
  }
}

// A base-3 digit of a ternary byte, as -1, 0 or 1: the byte is a fixed-point fraction, and
// multiplying by a power of 3 brings the digit to the front.
float Trit(uint8_t byte, uint8_t power) {
  const uint8_t shifted = static_cast<uint8_t>(byte * power);
  return static_cast<float>(((shifted * 3) >> 8) - 1);
}
constexpr uint8_t kPowersOf3[5] = {1, 3, 9, 27, 81};

}  // namespace

void DecodeQ4_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  ForEachNibble<16>(block + 2, out, [d](int q) { return d * static_cast<float>(q - 8); });
}

void DecodeQ4_1(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  ForEachNibble<16>(block + 4, out, [d, m](int q) { return d * static_cast<float>(q) + m; });
}

void DecodeQ5_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint32_t high = Load32(block + 2);
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? block[6 + i] & 0xf : block[6 + i - 16] >> 4;
    const int q = low | static_cast<int>(((high >> i) & 1u) << 4);
    out[i] = d * static_cast<float>(q - 16);
  }
}

void DecodeQ5_1(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  const uint32_t high = Load32(block + 4);
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? block[8 + i] & 0xf : block[8 + i - 16] >> 4;
    const int q = low | static_cast<int>(((high >> i) & 1u) << 4);
    out[i] = d * static_cast<float>(q) + m;
  }
}

void DecodeQ8_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

void DecodeIq4Nl(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  ForEachNibble<16>(block + 2, out, [d](int q) { return d * static_cast<float>(kIq4Levels[q]); });
}

void DecodeMxfp4(const uint8_t* block, float* out) {
  const float d = HalvedE8M0(block[0]);
  ForEachNibble<16>(block + 1, out, [d](int q) { return d * static_cast<float>(kFp4Doubled[q]); });
}

void DecodeNvfp4(const uint8_t* block, float* out) {
  for (int group = 0; group < 4; ++group) {
    const float d = HalvedUE4M3(block[group]);
    ForEachNibble<8>(block + 4 + 8 * group, out + 16 * group,
                     [d](int q) { return d * static_cast<float>(kFp4Doubled[q]); });
  }
}

void DecodeTq1_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + 52);
  // 32 bytes of five digits, 16 bytes of five, 4 bytes of four; digit-major within each part.
  for (int digit = 0; digit < 5; ++digit) {
    for (int i = 0; i < 32; ++i) *out++ = d * Trit(block[i], kPowersOf3[digit]);
  }
  for (int digit = 0; digit < 5; ++digit) {
    for (int i = 0; i < 16; ++i) *out++ = d * Trit(block[32 + i], kPowersOf3[digit]);
  }
  for (int digit = 0; digit < 4; ++digit) {
    for (int i = 0; i < 4; ++i) *out++ = d * Trit(block[48 + i], kPowersOf3[digit]);
  }
}

void DecodeTq2_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + 64);
  for (int part = 0; part < 2; ++part) {
    for (int shift = 0; shift < 8; shift += 2) {
      for (int i = 0; i < 32; ++i) {
        *out++ = d * static_cast<float>(((block[32 * part + i] >> shift) & 3) - 1);
      }
    }
  }
}

}  // namespace colibri::internal
