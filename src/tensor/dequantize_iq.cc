#include "tensor/dequantize_blocks.h"
#include "tensor/iq_grids.h"

namespace colibri::internal {
namespace {

constexpr float kIq1Delta = 0.125f;

template <size_t kWidth>
void WriteSigned(float scale, const std::array<uint8_t, kWidth>& magnitudes, uint32_t signs,
                 float* out) {
  for (size_t i = 0; i < kWidth; ++i) {
    const float value = scale * static_cast<float>(magnitudes[i]);
    out[i] = ((signs >> i) & 1u) != 0 ? -value : value;
  }
}

void WriteShifted(float scale, const std::array<int8_t, 8>& values, float delta, float* out) {
  for (size_t i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(values[i]) + delta);
}

int Nibble(const uint8_t* bytes, int i) {
  return (bytes[i / 2] >> (4 * (i % 2))) & 0xf;
}

}  // namespace

void DecodeIq2Xxs(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  for (int group = 0; group < 8; ++group) {
    const uint8_t* index = block + 2 + 8 * group;  // [4] then 4 x 7 sign bits and a scale
    const uint32_t packed = Load32(index + 4);
    const float scale = d * (0.5f + static_cast<float>(packed >> 28)) * 0.25f;
    for (int part = 0; part < 4; ++part) {
      const uint8_t signs = IqSigns((packed >> (7 * part)) & 0x7fu);
      WriteSigned(scale, kIq2xxsGrid[index[part]], signs, out + 32 * group + 8 * part);
    }
  }
}

void DecodeIq2Xs(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint8_t* scales = block + 66;  // [8] a nibble for each 16 values
  for (int entry = 0; entry < 32; ++entry) {
    const uint32_t packed = Load16(block + 2 + 2 * entry);  // 9 bits index, 7 bits sign
    const float scale = d * (0.5f + static_cast<float>(Nibble(scales, entry / 2))) * 0.25f;
    WriteSigned(scale, kIq2xsGrid[packed & 511u], IqSigns(packed >> 9), out + 8 * entry);
  }
}

void DecodeIq2S(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint8_t* low = block + 2;      // [32]
  const uint8_t* signs = block + 34;   // [32]
  const uint8_t* high = block + 66;    // [8] two bits for each entry
  const uint8_t* scales = block + 74;  // [8] a nibble for each 16 values
  for (int entry = 0; entry < 32; ++entry) {
    const int index = low[entry] | (((high[entry / 4] >> (2 * (entry % 4))) & 3) << 8);
    const float scale = d * (0.5f + static_cast<float>(Nibble(scales, entry / 2))) * 0.25f;
    WriteSigned(scale, kIq2sGrid[static_cast<size_t>(index)], signs[entry], out + 8 * entry);
  }
}

void DecodeIq3Xxs(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint8_t* index = block + 2;  // [64]
  for (int group = 0; group < 8; ++group) {
    const uint32_t packed = Load32(block + 66 + 4 * group);
    const float scale = d * (0.5f + static_cast<float>(packed >> 28)) * 0.5f;
    for (int part = 0; part < 4; ++part) {
      const uint32_t signs = IqSigns((packed >> (7 * part)) & 0x7fu);
      const uint8_t* pair = index + 8 * group + 2 * part;
      float* to = out + 32 * group + 8 * part;
      WriteSigned(scale, kIq3xxsGrid[pair[0]], signs, to);
      WriteSigned(scale, kIq3xxsGrid[pair[1]], signs >> 4, to + 4);
    }
  }
}

void DecodeIq3S(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint8_t* low = block + 2;       // [64]
  const uint8_t* high = block + 66;     // [8] one bit for each entry
  const uint8_t* signs = block + 74;    // [32]
  const uint8_t* scales = block + 106;  // [4] a nibble for each 32 values
  for (int entry = 0; entry < 64; ++entry) {
    const int index = low[entry] | (((high[entry / 8] >> (entry % 8)) & 1) << 8);
    const float scale = d * static_cast<float>(1 + 2 * Nibble(scales, entry / 8));
    const uint32_t sign = static_cast<uint32_t>(signs[entry / 2]) >> (4 * (entry % 2));
    WriteSigned(scale, kIq3sGrid[static_cast<size_t>(index)], sign, out + 4 * entry);
  }
}

void DecodeIq1S(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint8_t* low = block + 2;  // [32]
  for (int group = 0; group < 8; ++group) {
    const uint32_t high = Load16(block + 34 + 2 * group);  // 4 x 3 index bits, scale, delta's sign
    const float scale = d * static_cast<float>(2 * ((high >> 12) & 7u) + 1);
    const float delta = (high & 0x8000u) != 0 ? -kIq1Delta : kIq1Delta;
    for (int part = 0; part < 4; ++part) {
      const uint32_t index = low[4 * group + part] | (((high >> (3 * part)) & 7u) << 8);
      WriteShifted(scale, kIq1sGrid[index], delta, out + 32 * group + 8 * part);
    }
  }
}

void DecodeIq1M(const uint8_t* block, float* out) {
  const uint8_t* low = block;          // [32]
  const uint8_t* high = block + 32;    // [16] a nibble an entry: 3 index bits and delta's sign
  const uint8_t* scales = block + 48;  // [4] words of four 3-bit scales; their tops are the f16
  uint32_t d_bits = 0;
  for (int word = 0; word < 4; ++word) {
    d_bits |= static_cast<uint32_t>(Load16(scales + 2 * word) >> 12) << (4 * word);
  }
  const float d = HalfToFloat(static_cast<uint16_t>(d_bits));
  for (int entry = 0; entry < 32; ++entry) {
    const int pair = entry / 2;
    const uint32_t step = (Load16(scales + 2 * (pair / 4)) >> (3 * (pair % 4))) & 7u;
    const float scale = d * static_cast<float>(2 * step + 1);
    const int top = Nibble(high, entry);
    const float delta = (top & 8) != 0 ? -kIq1Delta : kIq1Delta;
    const size_t index = static_cast<size_t>(low[entry] | ((top & 7) << 8));
    WriteShifted(scale, kIq1sGrid[index], delta, out + 8 * entry);
  }
}

}  // namespace colibri::internal
