#include "tensor/dequantize_blocks.h"

namespace colibri::internal {
namespace {

struct ScaleAndMin {
  uint8_t scale;
  uint8_t min;
};

// The i-th of eight 6-bit scales and minima in the 12 bytes that q4_k and q5_k share: the first
// four pairs lie whole in bytes 0-7, the others in nibbles of bytes 8-11 and the free upper bits.
ScaleAndMin UnpackScaleAndMin(const uint8_t* packed, int i) {
  if (i < 4) {
    return {static_cast<uint8_t>(packed[i] & 0x3f), static_cast<uint8_t>(packed[i + 4] & 0x3f)};
  }
  return {static_cast<uint8_t>((packed[i + 4] & 0xf) | ((packed[i - 4] >> 6) << 4)),
          static_cast<uint8_t>((packed[i + 4] >> 4) | ((packed[i] >> 6) << 4))};
}

}  // namespace

void DecodeQ2_K(const uint8_t* block, float* out) {
  const uint8_t* scales = block;   // [16] scale low nibble, minimum high nibble
  const uint8_t* qs = block + 16;  // [64] two bits each
  const float d = LoadHalf(block + 80);
  const float dmin = LoadHalf(block + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(scales[i / 16] & 0xf);
    const float min = dmin * static_cast<float>(scales[i / 16] >> 4);
    const int q = (qs[32 * (i / 128) + i % 32] >> (2 * ((i / 32) % 4))) & 3;
    out[i] = scale * static_cast<float>(q) - min;
  }
}

void DecodeQ3_K(const uint8_t* block, float* out) {
  const uint8_t* high = block;         // [32] one bit each: 0 means minus four
  const uint8_t* qs = block + 32;      // [64] two bits each
  const uint8_t* packed = block + 96;  // [12] sixteen 6-bit scales
  const float d = LoadHalf(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    const int low = (packed[group % 8] >> (4 * (group / 8))) & 0xf;
    const int upper = (packed[8 + group % 4] >> (2 * (group / 4))) & 3;
    const float scale = d * static_cast<float>((low | (upper << 4)) - 32);
    const int q = (qs[32 * (i / 128) + i % 32] >> (2 * ((i / 32) % 4))) & 3;
    const int offset = ((high[i % 32] >> (i / 32)) & 1) != 0 ? 0 : 4;
    out[i] = scale * static_cast<float>(q - offset);
  }
}

void DecodeQ4_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  const uint8_t* qs = block + 16;  // [128]
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin s = UnpackScaleAndMin(block + 4, group);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    for (int i = 0; i < 32; ++i) {
      const int q = (qs[32 * (group / 2) + i] >> (4 * (group % 2))) & 0xf;
      out[32 * group + i] = scale * static_cast<float>(q) - min;
    }
  }
}

void DecodeQ5_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  const uint8_t* high = block + 16;  // [32] bit g belongs to group g
  const uint8_t* qs = block + 48;    // [128]
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin s = UnpackScaleAndMin(block + 4, group);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    for (int i = 0; i < 32; ++i) {
      const int low = (qs[32 * (group / 2) + i] >> (4 * (group % 2))) & 0xf;
      const int q = low | (((high[i] >> group) & 1) << 4);
      out[32 * group + i] = scale * static_cast<float>(q) - min;
    }
  }
}

void DecodeQ6_K(const uint8_t* block, float* out) {
  const uint8_t* low = block;           // [128] four bits each
  const uint8_t* high = block + 128;    // [64] two bits each
  const uint8_t* scales = block + 192;  // [16] signed
  const float d = LoadHalf(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int ql = (low[64 * half + i % 64] >> (4 * ((i / 64) % 2))) & 0xf;
    const int qh = (high[32 * half + i % 32] >> (2 * ((i / 32) % 4))) & 3;
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    out[i] = scale * static_cast<float>((ql | (qh << 4)) - 32);
  }
}

void DecodeIq4Xs(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint32_t scales_high = Load16(block + 2);
  const uint8_t* scales_low = block + 4;  // [4] a nibble for each group of 32
  const uint8_t* qs = block + 8;          // [128]
  for (int group = 0; group < 8; ++group) {
    const int low = (scales_low[group / 2] >> (4 * (group % 2))) & 0xf;
    const int high = static_cast<int>((scales_high >> (2 * group)) & 3u);
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    for (int i = 0; i < 32; ++i) {
      const int q = (qs[16 * group + i % 16] >> (4 * (i / 16))) & 0xf;
      out[32 * group + i] = scale * static_cast<float>(kIq4Levels[q]);
    }
  }
}

}  // namespace colibri::internal
