#include "tensor/packed.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "tensor/dequantize_blocks.h"

namespace colibri {
namespace {

using internal::kIq4Levels;
using internal::Load16;
using internal::Load32;
using internal::LoadHalf;

constexpr PanelFormat kHalfScaleNibbles{.block_columns = 32, .has_nibbles = true, .scale_bytes = 2};

constexpr PanelFormat Format(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      return kHalfScaleNibbles;
    case DType::kQ4_1:
      return {.block_columns = 32, .has_nibbles = true, .scale_bytes = 4};
    case DType::kQ5_0:
      return {.block_columns = 32,
              .has_nibbles = true,
              .has_bits = true,
              .bit_shift = 4,
              .scale_bytes = 2};
    case DType::kQ5_1:
      return {.block_columns = 32,
              .has_nibbles = true,
              .has_bits = true,
              .bit_shift = 4,
              .scale_bytes = 4};
    case DType::kQ8_0:
      return {.block_columns = 32, .has_bytes = true, .scale_bytes = 2};
    case DType::kMXFP4:
      return {.block_columns = 32, .has_nibbles = true, .scale_bytes = 1};
    case DType::kNVFP4:
      return {.block_columns = 64, .has_nibbles = true, .scale_bytes = 2};
    case DType::kQ2_K:
      return {.block_columns = 256, .n_header = 2, .has_pairs = true, .scale_bytes = 2};
    case DType::kQ3_K:
      return {.block_columns = 256,
              .n_header = 1,
              .has_pairs = true,
              .has_bits = true,
              .bit_shift = 2,
              .scale_bytes = 2};
    case DType::kQ4_K:
      return {.block_columns = 256, .n_header = 2, .has_nibbles = true, .scale_bytes = 2};
    case DType::kQ5_K:
      return {.block_columns = 256,
              .n_header = 2,
              .has_nibbles = true,
              .has_bits = true,
              .bit_shift = 4,
              .scale_bytes = 2};
    case DType::kQ6_K:
      return {.block_columns = 256,
              .n_header = 1,
              .has_nibbles = true,
              .has_pairs = true,
              .pair_shift = 4,
              .scale_bytes = 2};
    case DType::kIQ4_XS:
      return {.block_columns = 256, .n_header = 1, .has_nibbles = true, .scale_bytes = 1};
    case DType::kBF16:
      return {.block_columns = kGroupColumns, .numbers = PanelNumbers::kBFloat16};
    case DType::kF16:
      return {.block_columns = kGroupColumns, .numbers = PanelNumbers::kFloat16};
    case DType::kF32:
      return {.block_columns = kGroupColumns, .numbers = PanelNumbers::kFloat32};
    default:
      return {};
  }
}

// A group of 32 columns of one row, taken out of its stored block.
struct RowGroup {
  uint8_t code[32];
  uint8_t scale[4];  // as the panel holds them: [part]
};

void SplitNibbles(const uint8_t* bytes, uint8_t* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = bytes[i] & 0xf;
    code[i + 16] = bytes[i] >> 4;
  }
}

void AddFifthBits(uint32_t high, uint8_t* code) {
  for (int i = 0; i < 32; ++i) {
    code[i] = static_cast<uint8_t>(code[i] | (((high >> i) & 1u) << 4));
  }
}

void ReadQ2K(const uint8_t* block, int g, RowGroup& out) {
  const uint8_t* const qs = block + 16 + 32 * (g / 4);
  const int shift = 2 * (g % 4);
  for (int i = 0; i < 32; ++i) out.code[i] = (qs[i] >> shift) & 3;
  out.scale[0] = block[2 * g];
  out.scale[1] = block[2 * g + 1];
}

void ReadQ3K(const uint8_t* block, int g, RowGroup& out) {
  const uint8_t* const qs = block + 32 + 32 * (g / 4);
  const int shift = 2 * (g % 4);
  for (int i = 0; i < 32; ++i) {
    out.code[i] = static_cast<uint8_t>(((qs[i] >> shift) & 3) | (((block[i] >> g) & 1) << 2));
  }
  const uint8_t* const packed = block + 96;
  for (int part = 0; part < 2; ++part) {
    const int s = 2 * g + part;
    const int low = (packed[s % 8] >> (4 * (s / 8))) & 0xf;
    const int upper = (packed[8 + s % 4] >> (2 * (s / 4))) & 3;
    out.scale[part] = static_cast<uint8_t>((low | (upper << 4)) - 32);
  }
}

// What q4_k and q5_k share.
void ReadScaleAndMin(const uint8_t* packed, int g, RowGroup& out) {
  if (g < 4) {
    out.scale[0] = packed[g] & 0x3f;
    out.scale[1] = packed[g + 4] & 0x3f;
  } else {
    out.scale[0] = static_cast<uint8_t>((packed[g + 4] & 0xf) | ((packed[g - 4] >> 6) << 4));
    out.scale[1] = static_cast<uint8_t>((packed[g + 4] >> 4) | ((packed[g] >> 6) << 4));
  }
}

void ReadPairedNibbles(const uint8_t* qs, int g, RowGroup& out) {
  const int shift = 4 * (g % 2);
  for (int i = 0; i < 32; ++i) out.code[i] = (qs[32 * (g / 2) + i] >> shift) & 0xf;
}

void ReadQ6K(const uint8_t* block, int g, RowGroup& out) {
  const int half = g / 4, quarter = g % 4;
  const uint8_t* const low = block + 64 * half + 32 * (quarter % 2);
  const uint8_t* const high = block + 128 + 32 * half;
  for (int i = 0; i < 32; ++i) {
    const int four = (low[i] >> (4 * (quarter / 2))) & 0xf, two = (high[i] >> (2 * quarter)) & 3;
    out.code[i] = static_cast<uint8_t>(four | (two << 4));
  }
  out.scale[0] = block[192 + 2 * g];
  out.scale[1] = block[192 + 2 * g + 1];
}

void ReadIq4Xs(const uint8_t* block, int g, RowGroup& out) {
  SplitNibbles(block + 8 + 16 * g, out.code);
  const int low = (block[4 + g / 2] >> (4 * (g % 2))) & 0xf;
  const int high = (Load16(block + 2) >> (2 * g)) & 3;
  out.scale[0] = static_cast<uint8_t>((low | (high << 4)) - 32);
}

// Seven bits of an unsigned e4m3, all ones being 480: the pattern that counts as zero becomes zero
// here, so that kernels need not look for it.
uint8_t CleanUE4M3(uint8_t bits) {
  return bits == 0x7f ? 0 : bits & 0x7f;
}

void ReadNvfp4(const uint8_t* block, int g, RowGroup& out) {
  // 16 columns a scale, in 8 bytes: low nibbles first.
  for (int part = 0; part < 2; ++part) {
    const uint8_t* const qs = block + 4 + 16 * g + 8 * part;
    for (int i = 0; i < 8; ++i) {
      out.code[16 * part + i] = qs[i] & 0xf;
      out.code[16 * part + 8 + i] = qs[i] >> 4;
    }
    out.scale[part] = CleanUE4M3(block[2 * g + part]);
  }
}

// Group g of a stored block.
template <DType kType>
void ReadGroup(const uint8_t* block, int g, RowGroup& out) {
  switch (kType) {
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      std::memcpy(out.scale, block, 2);
      return SplitNibbles(block + 2, out.code);
    case DType::kQ4_1:
      std::memcpy(out.scale, block, 4);
      return SplitNibbles(block + 4, out.code);
    case DType::kQ5_0:
      std::memcpy(out.scale, block, 2);
      SplitNibbles(block + 6, out.code);
      return AddFifthBits(Load32(block + 2), out.code);
    case DType::kQ5_1:
      std::memcpy(out.scale, block, 4);
      SplitNibbles(block + 8, out.code);
      return AddFifthBits(Load32(block + 4), out.code);
    case DType::kQ8_0:
      std::memcpy(out.scale, block, 2);
      for (int i = 0; i < 32; ++i) out.code[i] = block[2 + i] ^ 0x80;
      return;
    case DType::kMXFP4:
      out.scale[0] = block[0];
      return SplitNibbles(block + 1, out.code);
    case DType::kNVFP4:
      return ReadNvfp4(block, g, out);
    case DType::kQ2_K:
      return ReadQ2K(block, g, out);
    case DType::kQ3_K:
      return ReadQ3K(block, g, out);
    case DType::kQ4_K:
      ReadScaleAndMin(block + 4, g, out);
      return ReadPairedNibbles(block + 16, g, out);
    case DType::kQ5_K:
      ReadScaleAndMin(block + 4, g, out);
      ReadPairedNibbles(block + 48, g, out);
      for (int i = 0; i < 32; ++i) {
        out.code[i] = static_cast<uint8_t>(out.code[i] | (((block[16 + i] >> g) & 1) << 4));
      }
      return;
    case DType::kQ6_K:
      return ReadQ6K(block, g, out);
    case DType::kIQ4_XS:
      return ReadIq4Xs(block, g, out);
    default:
      COLIBRI_CHECK(false);
  }
}

// The binary16 numbers of a stored block that become the panel's header.
template <DType kType>
void ReadHeader(const uint8_t* block, uint16_t (&header)[2]) {
  const auto set = [&](int first, int second) {
    header[0] = Load16(block + first);
    header[1] = second < 0 ? uint16_t{0} : Load16(block + second);
  };
  switch (kType) {
    case DType::kQ2_K:
      return set(80, 82);
    case DType::kQ3_K:
      return set(108, -1);
    case DType::kQ4_K:
    case DType::kQ5_K:
      return set(0, 2);
    case DType::kQ6_K:
      return set(208, -1);
    case DType::kIQ4_XS:
      return set(0, -1);
    default:
      header[0] = header[1] = 0;
  }
}

uint32_t LoadWord(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}
void StoreWord(uint8_t* p, uint32_t word) {
  std::memcpy(p, &word, sizeof(word));
}

// The place of a row's word in a plane.
size_t WordOffset(int word, int row) {
  return static_cast<size_t>(word * kPanelRows + row) * 4;
}

template <DType kType>
void WriteGroup(const RowGroup& in, int row, uint8_t* group) {
  constexpr PanelFormat f = Format(kType);
  if (f.has_bytes) {
    for (int q = 0; q < 8; ++q) StoreWord(group + WordOffset(q, row), LoadWord(in.code + 4 * q));
  }
  if (f.has_nibbles) {
    for (int j = 0; j < 4; ++j) {
      const uint32_t low = LoadWord(in.code + 8 * j) & 0x0f0f0f0fu,
                     high = LoadWord(in.code + 8 * j + 4) & 0x0f0f0f0fu;
      StoreWord(group + WordOffset(j, row), low | (high << 4));
    }
  }
  if (f.has_pairs) {
    for (int j = 0; j < 2; ++j) {
      uint32_t word = 0;
      for (int m = 0; m < 4; ++m) {
        word |= ((LoadWord(in.code + 16 * j + 4 * m) >> f.pair_shift) & 0x03030303u) << (2 * m);
      }
      StoreWord(group + f.pair_offset() + WordOffset(j, row), word);
    }
  }
  if (f.has_bits) {
    uint32_t word = 0;
    for (int q = 0; q < 8; ++q) {
      word |= ((LoadWord(in.code + 4 * q) >> f.bit_shift) & 0x01010101u) << q;
    }
    StoreWord(group + f.bit_offset() + WordOffset(0, row), word);
  }
}

// Scales that are bytes stand part by part; binary16 ones are wholes of two bytes.
constexpr bool HasHalfScales(const PanelFormat& f, DType dtype) {
  return f.n_header == 0 && dtype != DType::kMXFP4 && dtype != DType::kNVFP4;
}
size_t ScaleOffset(const PanelFormat& f, bool halves, int byte, int row) {
  const auto r = static_cast<size_t>(row), b = static_cast<size_t>(byte);
  const size_t at = halves ? b / 2 * 2 * kPanelRows + 2 * r + b % 2 : b * kPanelRows + r;
  return static_cast<size_t>(f.scale_offset()) + at;
}

template <DType kType>
uint8_t ReadCode(const uint8_t* group, int row, int column) {
  constexpr PanelFormat f = Format(kType);
  const int q = column / 4, i = column % 4;
  const auto byte = [&](int offset, int word) {
    return group[static_cast<size_t>(offset) + WordOffset(word, row) + static_cast<size_t>(i)];
  };
  int code = 0;
  if (f.has_bytes) code = byte(0, q);
  if (f.has_nibbles) code = (byte(0, q / 2) >> (4 * (q % 2))) & 0xf;
  if (f.has_pairs) code |= ((byte(f.pair_offset(), q / 4) >> (2 * (q % 4))) & 3) << f.pair_shift;
  if (f.has_bits) code |= ((byte(f.bit_offset(), 0) >> q) & 1) << f.bit_shift;
  return static_cast<uint8_t>(code);
}

// The functions below are made for each type: with a type's shifts and offsets known, packing keeps
// up with a disk.
template <DType kType>
void PackPanelOf(const uint8_t* rows, size_t row_bytes, int32_t n_rows, int32_t cols,
                 uint8_t* panel) {
  constexpr PanelFormat f = Format(kType);
  constexpr bool kHalves = HasHalfScales(f, kType);
  constexpr int kGroups = f.block_columns / kGroupColumns;
  const auto stored_bytes = static_cast<size_t>(GetDTypeInfo(kType).block_bytes);
  uint8_t* block = panel;
  for (int32_t b = 0; b < cols / f.block_columns; ++b, block += f.block_bytes()) {
    if (n_rows < kPanelRows) std::memset(block, 0, static_cast<size_t>(f.block_bytes()));
    for (int32_t r = 0; r < n_rows; ++r) {
      const uint8_t* const stored =
          rows + static_cast<size_t>(r) * row_bytes + static_cast<size_t>(b) * stored_bytes;
      uint16_t header[2];
      ReadHeader<kType>(stored, header);
      for (int h = 0; h < f.n_header; ++h)
        std::memcpy(block + (h * kPanelRows + r) * 2, &header[h], 2);
      uint8_t* group_out = block + f.header_bytes();
      for (int g = 0; g < kGroups; ++g, group_out += f.group_bytes()) {
        RowGroup group;
        ReadGroup<kType>(stored, g, group);
        WriteGroup<kType>(group, r, group_out);
        for (int s = 0; s < f.scale_bytes; ++s)
          group_out[ScaleOffset(f, kHalves, s, r)] = group.scale[s];
      }
    }
  }
}

template <DType kType>
void UnpackPanelRowOf(const uint8_t* panel, int32_t row, int32_t cols, float* out) {
  constexpr PanelFormat f = Format(kType);
  const auto header_bytes = static_cast<size_t>(f.header_bytes()),
             group_bytes = static_cast<size_t>(f.group_bytes());
  const bool halves = HasHalfScales(f, kType);
  const uint8_t* block = panel;
  for (int32_t b = 0; b < cols / f.block_columns; ++b, block += f.block_bytes()) {
    float header[2] = {0, 0};
    for (int h = 0; h < f.n_header; ++h)
      header[h] = HalfToFloat(Load16(block + (h * kPanelRows + row) * 2));
    for (int g = 0; g < f.block_columns / kGroupColumns; ++g, out += kGroupColumns) {
      const uint8_t* const group = block + header_bytes + static_cast<size_t>(g) * group_bytes;
      uint8_t scale[4] = {};
      for (int s = 0; s < f.scale_bytes; ++s) scale[s] = group[ScaleOffset(f, halves, s, row)];
      const auto signed_scale = [&](int part) {
        return static_cast<float>(static_cast<int8_t>(scale[part]));
      };
      for (int c = 0; c < kGroupColumns; ++c) {
        const int q = ReadCode<kType>(group, row, c), part = c / 16;
        const auto value = [&](float factor, int zero) {
          return factor * static_cast<float>(q - zero);
        };
        switch (kType) {
          case DType::kQ4_0:
            out[c] = value(LoadHalf(scale), 8);
            break;
          case DType::kQ4_1:
          case DType::kQ5_1:
            out[c] = value(LoadHalf(scale), 0) + LoadHalf(scale + 2);
            break;
          case DType::kQ5_0:
            out[c] = value(LoadHalf(scale), 16);
            break;
          case DType::kQ8_0:
            out[c] = value(LoadHalf(scale), 128);
            break;
          case DType::kIQ4_NL:
            out[c] = LoadHalf(scale) * static_cast<float>(kIq4Levels[q]);
            break;
          case DType::kMXFP4:
            out[c] = internal::HalvedE8M0(scale[0]) * static_cast<float>(internal::kFp4Doubled[q]);
            break;
          case DType::kNVFP4:
            out[c] = internal::HalvedUE4M3(scale[part] | 0x80) *
                     static_cast<float>(internal::kFp4Doubled[q]);
            break;
          case DType::kQ2_K:
            out[c] = value(header[0] * static_cast<float>(scale[part] & 0xf), 0) -
                     header[1] * static_cast<float>(scale[part] >> 4);
            break;
          case DType::kQ3_K:
            out[c] = value(header[0] * signed_scale(part), 4);
            break;
          case DType::kQ4_K:
          case DType::kQ5_K:
            out[c] = value(header[0] * static_cast<float>(scale[0]), 0) -
                     header[1] * static_cast<float>(scale[1]);
            break;
          case DType::kQ6_K:
            out[c] = value(header[0] * signed_scale(part), 32);
            break;
          case DType::kIQ4_XS:
            out[c] = header[0] * signed_scale(0) * static_cast<float>(kIq4Levels[q]);
            break;
          default:
            COLIBRI_CHECK(false);
        }
      }
    }
  }
}

constexpr size_t kBf16GroupBytes = size_t{kGroupColumns} * 2 * kPanelRows;

// Group by group, so that a panel's lines are written while they are in the cache.
void PackBf16Panel(const uint8_t* rows, size_t row_bytes, int32_t n_rows, int32_t cols,
                   uint8_t* panel) {
  constexpr int kWords = kGroupColumns / 2;
  for (int32_t c = 0; c < cols; c += kGroupColumns, panel += kBf16GroupBytes) {
    const auto n_bytes = static_cast<size_t>(std::min(kGroupColumns, cols - c)) * 2;
    const bool is_whole = n_rows == kPanelRows && n_bytes == size_t{kGroupColumns} * 2;
    if (!is_whole) std::memset(panel, 0, kBf16GroupBytes);
    for (int32_t r = 0; r < n_rows; ++r) {
      uint8_t row[kGroupColumns * 2] = {};
      std::memcpy(row, rows + static_cast<size_t>(r) * row_bytes + static_cast<size_t>(c) * 2,
                  n_bytes);
      for (int j = 0; j < kWords; ++j) {
        StoreWord(panel + WordOffset(j, r), LoadWord(row + 4 * j));
      }
    }
  }
}

void UnpackBf16PanelRow(const uint8_t* panel, int32_t row, int32_t cols, float* out) {
  for (int32_t c = 0; c < cols; ++c) {
    const uint8_t* const group = panel + static_cast<size_t>(c / kGroupColumns) * kBf16GroupBytes;
    const int in_group = c % kGroupColumns;
    const uint32_t word = LoadWord(group + WordOffset(in_group / 2, row));
    out[c] = BFloat16ToFloat(static_cast<uint16_t>(word >> (16 * (in_group % 2))));
  }
}

// A column's numbers side by side. Some columns at a time: a row's lines are read once, and what is
// written stays in the cache.
template <typename Number>
void PackNumbers(const uint8_t* rows, size_t row_bytes, int32_t n_rows, int32_t cols,
                 uint8_t* panel) {
  constexpr size_t kColumnBytes = kPanelRows * sizeof(Number);
  if (n_rows < kPanelRows) std::memset(panel, 0, static_cast<size_t>(cols) * kColumnBytes);
  for (int32_t first = 0; first < cols; first += kGroupColumns) {
    const int32_t end = std::min(first + kGroupColumns, cols);
    for (int32_t r = 0; r < n_rows; ++r) {
      const uint8_t* const row = rows + static_cast<size_t>(r) * row_bytes;
      uint8_t* const lane = panel + static_cast<size_t>(r) * sizeof(Number);
      for (auto c = static_cast<size_t>(first); c < static_cast<size_t>(end); ++c)
        std::memcpy(lane + c * kColumnBytes, row + c * sizeof(Number), sizeof(Number));
    }
  }
}

void UnpackF16PanelRow(const uint8_t* panel, int32_t row, int32_t cols, float* out) {
  for (int32_t c = 0; c < cols; ++c)
    out[c] = LoadHalf(panel + (static_cast<size_t>(c) * kPanelRows + static_cast<size_t>(row)) * 2);
}

void UnpackF32PanelRow(const uint8_t* panel, int32_t row, int32_t cols, float* out) {
  for (int32_t c = 0; c < cols; ++c) {
    const size_t at = static_cast<size_t>(c) * kPanelRows + static_cast<size_t>(row);
    std::memcpy(&out[c], panel + at * sizeof(float), sizeof(float));
  }
}

struct PanelFunctions {
  void (*pack)(const uint8_t* rows, size_t row_bytes, int32_t n_rows, int32_t cols,
               uint8_t* panel) = nullptr;
  void (*unpack_row)(const uint8_t* panel, int32_t row, int32_t cols, float* out) = nullptr;
};

template <DType kType>
constexpr PanelFunctions FunctionsOf() {
  constexpr PanelFormat kFormat = Format(kType);
  if constexpr (kFormat.block_columns == 0) {
    return {};
  } else if constexpr (kFormat.numbers == PanelNumbers::kBFloat16) {
    return {PackBf16Panel, UnpackBf16PanelRow};
  } else if constexpr (kFormat.numbers == PanelNumbers::kFloat16) {
    return {PackNumbers<uint16_t>, UnpackF16PanelRow};
  } else if constexpr (kFormat.numbers == PanelNumbers::kFloat32) {
    return {PackNumbers<uint32_t>, UnpackF32PanelRow};
  } else {
    return {PackPanelOf<kType>, UnpackPanelRowOf<kType>};
  }
}

template <size_t... kTypes>
constexpr std::array<PanelFunctions, kNumDTypes> AllFunctions(std::index_sequence<kTypes...>) {
  return {FunctionsOf<static_cast<DType>(kTypes)>()...};
}
constexpr std::array<PanelFunctions, kNumDTypes> kFunctions =
    AllFunctions(std::make_index_sequence<kNumDTypes>());

}  // namespace

const PanelFormat* FindPanelFormat(DType dtype) {
  static constexpr auto kFormats = [] {
    std::array<PanelFormat, kNumDTypes> out{};
    for (size_t i = 0; i < kNumDTypes; ++i) out[i] = Format(static_cast<DType>(i));
    return out;
  }();
  const PanelFormat& format = kFormats[static_cast<size_t>(dtype)];
  return format.block_columns == 0 ? nullptr : &format;
}

size_t PanelRowBytes(const PanelFormat& format, int32_t cols) {
  if (format.numbers == PanelNumbers::kBFloat16) return BFloat16RowElements(cols) * 2;
  if (format.numbers != PanelNumbers::kCodes)
    return static_cast<size_t>(cols) * static_cast<size_t>(format.number_bytes());
  COLIBRI_CHECK(cols % format.block_columns == 0);
  return static_cast<size_t>(cols / format.block_columns) *
         static_cast<size_t>(format.block_bytes() / kPanelRows);
}

void PackPanel(DType dtype, const uint8_t* rows, size_t row_bytes, int32_t n_rows, int32_t cols,
               uint8_t* panel) {
  const PanelFormat* const format = FindPanelFormat(dtype);
  COLIBRI_CHECK(format != nullptr && n_rows <= kPanelRows &&
                (format->numbers != PanelNumbers::kCodes || cols % format->block_columns == 0));
  kFunctions[static_cast<size_t>(dtype)].pack(rows, row_bytes, n_rows, cols, panel);
}

void UnpackPanelRow(DType dtype, const uint8_t* panel, int32_t row, int32_t cols, float* out) {
  COLIBRI_CHECK(FindPanelFormat(dtype) != nullptr && row < kPanelRows);
  kFunctions[static_cast<size_t>(dtype)].unpack_row(panel, row, cols, out);
}

}  // namespace colibri
