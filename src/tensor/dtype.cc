#include "tensor/dtype.h"

#include <array>

#include "base/checked.h"

namespace colibri {
namespace {

constexpr std::array<DTypeInfo, kNumDTypes> kTable = {{
    {DType::kF32, "f32", 1, 4, true},
    {DType::kF16, "f16", 1, 2, true},
    {DType::kBF16, "bf16", 1, 2, true},
    {DType::kF64, "f64", 1, 8, true},
    {DType::kI8, "i8", 1, 1, false},
    {DType::kI16, "i16", 1, 2, false},
    {DType::kI32, "i32", 1, 4, false},
    {DType::kI64, "i64", 1, 8, false},
    {DType::kU8, "u8", 1, 1, false},
    {DType::kBool, "bool", 1, 1, false},
    {DType::kQ4_0, "q4_0", 32, 18, true},
    {DType::kQ4_1, "q4_1", 32, 20, true},
    {DType::kQ5_0, "q5_0", 32, 22, true},
    {DType::kQ5_1, "q5_1", 32, 24, true},
    {DType::kQ8_0, "q8_0", 32, 34, true},
    {DType::kQ2_K, "q2_k", 256, 84, true},
    {DType::kQ3_K, "q3_k", 256, 110, true},
    {DType::kQ4_K, "q4_k", 256, 144, true},
    {DType::kQ5_K, "q5_k", 256, 176, true},
    {DType::kQ6_K, "q6_k", 256, 210, true},
    {DType::kIQ1_S, "iq1_s", 256, 50, true},
    {DType::kIQ1_M, "iq1_m", 256, 56, true},
    {DType::kIQ2_XXS, "iq2_xxs", 256, 66, true},
    {DType::kIQ2_XS, "iq2_xs", 256, 74, true},
    {DType::kIQ2_S, "iq2_s", 256, 82, true},
    {DType::kIQ3_XXS, "iq3_xxs", 256, 98, true},
    {DType::kIQ3_S, "iq3_s", 256, 110, true},
    {DType::kIQ4_NL, "iq4_nl", 32, 18, true},
    {DType::kIQ4_XS, "iq4_xs", 256, 136, true},
    {DType::kTQ1_0, "tq1_0", 256, 54, true},
    {DType::kTQ2_0, "tq2_0", 256, 66, true},
    {DType::kMXFP4, "mxfp4", 32, 17, true},
    {DType::kNVFP4, "nvfp4", 64, 36, true},
    {DType::kF8_E4M3, "f8_e4m3", 1, 1, true},
    {DType::kF8_E5M2, "f8_e5m2", 1, 1, true},
}};

constexpr bool RowsStandAtTheirIndex() {
  for (size_t i = 0; i < kNumDTypes; ++i) {
    if (static_cast<size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(RowsStandAtTheirIndex());

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (Lower(a[i]) != Lower(b[i])) return false;
  }
  return true;
}

}  // namespace

const DTypeInfo& GetDTypeInfo(DType dtype) {
  return kTable[static_cast<size_t>(dtype)];
}

std::optional<uint64_t> DTypeBytes(DType dtype, uint64_t n_elements) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  if (n_elements % info.block_elements != 0) return std::nullopt;
  return CheckedMul(n_elements / info.block_elements, info.block_bytes);
}

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeInfo& info : kTable) {
    if (EqualIgnoringCase(info.name, name)) return info.dtype;
  }
  return std::nullopt;
}

}  // namespace colibri
