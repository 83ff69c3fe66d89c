// tensor/iq_grids.h - the codebooks of the IQ1, IQ2 and IQ3 block types: which group of values an
// index stands for. Facts of the GGUF format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace colibri {

template <typename T, size_t kEntries, size_t kWidth>
using IqGrid = std::array<std::array<T, kWidth>, kEntries>;

// [entry, 8] magnitudes out of {8, 25, 43}.
extern const IqGrid<uint8_t, 256, 8> kIq2xxsGrid;
extern const IqGrid<uint8_t, 512, 8> kIq2xsGrid;
extern const IqGrid<uint8_t, 1024, 8> kIq2sGrid;
// [entry, 8] values out of {-1, 0, 1}; IQ1_S and IQ1_M share it.
extern const IqGrid<int8_t, 2048, 8> kIq1sGrid;
// [entry, 4] magnitudes out of {4, 12, 20, 28, 36, 44, 52, 62}.
extern const IqGrid<uint8_t, 256, 4> kIq3xxsGrid;
// [entry, 4] odd magnitudes 1 to 15.
extern const IqGrid<uint8_t, 512, 4> kIq3sGrid;

// The signs of 8 values, one bit each, from 7 stored bits: the eighth makes their number even.
constexpr uint8_t IqSigns(uint32_t seven_bits) {
  return static_cast<uint8_t>(seven_bits | (__builtin_parity(seven_bits) != 0 ? 0x80u : 0u));
}

}  // namespace colibri
