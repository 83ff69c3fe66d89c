// tensor/dtype.h - the element types that model files use, one row of a table each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace colibri {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool,
  // Block types of GGUF, named as there.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_NL,
  kIQ4_XS,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
  // The 8-bit floats of safetensors: e4m3 has no infinity, e5m2 is the upper half of an f16.
  kF8_E4M3,
  kF8_E5M2,
};
inline constexpr size_t kNumDTypes = static_cast<size_t>(DType::kF8_E5M2) + 1;

struct DTypeInfo {
  DType dtype;
  std::string_view
      name;  // "f32", "q4_0", "iq4_nl": lower case, as messages and files of ours spell it
  uint32_t block_elements;  // consecutive elements of a row that share one block; 1 for plain types
  uint32_t block_bytes;     // bytes of a block
  bool is_weight;           // can be decoded to float32
};

// The row of the table.
const DTypeInfo& GetDTypeInfo(DType dtype);
inline std::string_view DTypeName(DType dtype) {
  return GetDTypeInfo(dtype).name;
}

// Bytes of n elements, or nothing when n is no whole number of blocks or the product overflows.
std::optional<uint64_t> DTypeBytes(DType dtype, uint64_t n_elements);

// The type with this name (any case), or nothing.
std::optional<DType> ParseDType(std::string_view name);

}  // namespace colibri
