// support/kernel_data.h - random stored weights for tests of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/dequantize.h"
#include "tensor/dtype.h"

namespace colibri::testing {

// Every type that a matmul takes.
inline std::vector<DType> WeightDTypes() {
  std::vector<DType> out;
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (GetDTypeInfo(dtype).is_weight) out.push_back(dtype);
  }
  return out;
}

inline std::vector<float> RandomFloats(size_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

// n elements of random bits, of which any may stand for infinity or NaN.
inline std::vector<uint8_t> RandomBlocks(DType dtype, size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> out(*DTypeBytes(dtype, n));
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random());
  return out;
}

// n elements of random bits, in blocks whose values are all finite and of moderate size.
inline std::vector<uint8_t> RandomWeights(DType dtype, size_t n, uint32_t seed) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  std::mt19937 random(seed);
  std::vector<uint8_t> out(*DTypeBytes(dtype, n));
  std::vector<float> values(info.block_elements);
  const auto is_moderate = [](float x) { return std::abs(x) < 100.0f; };  // false for NaN
  for (size_t at = 0; at < out.size(); at += info.block_bytes) {
    do {
      for (size_t i = 0; i < info.block_bytes; ++i) out[at + i] = static_cast<uint8_t>(random());
      DequantizeReference(dtype, &out[at], values.data(), values.size());
    } while (!std::all_of(values.begin(), values.end(), is_moderate));
  }
  return out;
}

}  // namespace colibri::testing
