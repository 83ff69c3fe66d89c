#include "tensor/dequantize.h"

#include <bit>

#include "base/check.h"
#include "tensor/dequantize_blocks.h"

namespace colibri {
namespace {

using namespace internal;  // NOLINT: the decoders of this folder

void DecodeF32(const uint8_t* block, float* out) {
  *out = std::bit_cast<float>(Load32(block));
}
void DecodeF16(const uint8_t* block, float* out) {
  *out = LoadHalf(block);
}
void DecodeBf16(const uint8_t* block, float* out) {
  *out = BFloat16ToFloat(Load16(block));
}
void DecodeF64(const uint8_t* block, float* out) {
  const uint64_t bits = Load32(block) | (static_cast<uint64_t>(Load32(block + 4)) << 32);
  *out = static_cast<float>(std::bit_cast<double>(bits));
}
void DecodeE4M3(const uint8_t* block, float* out) {
  *out = Float8E4M3ToFloat(*block);
}
void DecodeE5M2(const uint8_t* block, float* out) {
  *out = Float8E5M2ToFloat(*block);
}

// The type as a template argument, so that the loop over blocks calls its decoder directly.
template <BlockDecoder kDecode>
void DecodeAll(const uint8_t* src, float* dst, size_t n_blocks, const DTypeInfo& info) {
  for (size_t i = 0; i < n_blocks; ++i) {
    kDecode(src, dst);
    src += info.block_bytes;
    dst += info.block_elements;
  }
}

using Decoder = void (*)(const uint8_t*, float*, size_t, const DTypeInfo&);

// Null for types that are no weights.
Decoder FindDecoder(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return DecodeAll<DecodeF32>;
    case DType::kF16:
      return DecodeAll<DecodeF16>;
    case DType::kBF16:
      return DecodeAll<DecodeBf16>;
    case DType::kF64:
      return DecodeAll<DecodeF64>;
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kBool:
      return nullptr;
    case DType::kQ4_0:
      return DecodeAll<DecodeQ4_0>;
    case DType::kQ4_1:
      return DecodeAll<DecodeQ4_1>;
    case DType::kQ5_0:
      return DecodeAll<DecodeQ5_0>;
    case DType::kQ5_1:
      return DecodeAll<DecodeQ5_1>;
    case DType::kQ8_0:
      return DecodeAll<DecodeQ8_0>;
    case DType::kQ2_K:
      return DecodeAll<DecodeQ2_K>;
    case DType::kQ3_K:
      return DecodeAll<DecodeQ3_K>;
    case DType::kQ4_K:
      return DecodeAll<DecodeQ4_K>;
    case DType::kQ5_K:
      return DecodeAll<DecodeQ5_K>;
    case DType::kQ6_K:
      return DecodeAll<DecodeQ6_K>;
    case DType::kIQ1_S:
      return DecodeAll<DecodeIq1S>;
    case DType::kIQ1_M:
      return DecodeAll<DecodeIq1M>;
    case DType::kIQ2_XXS:
      return DecodeAll<DecodeIq2Xxs>;
    case DType::kIQ2_XS:
      return DecodeAll<DecodeIq2Xs>;
    case DType::kIQ2_S:
      return DecodeAll<DecodeIq2S>;
    case DType::kIQ3_XXS:
      return DecodeAll<DecodeIq3Xxs>;
    case DType::kIQ3_S:
      return DecodeAll<DecodeIq3S>;
    case DType::kIQ4_NL:
      return DecodeAll<DecodeIq4Nl>;
    case DType::kIQ4_XS:
      return DecodeAll<DecodeIq4Xs>;
    case DType::kTQ1_0:
      return DecodeAll<DecodeTq1_0>;
    case DType::kTQ2_0:
      return DecodeAll<DecodeTq2_0>;
    case DType::kMXFP4:
      return DecodeAll<DecodeMxfp4>;
    case DType::kNVFP4:
      return DecodeAll<DecodeNvfp4>;
    case DType::kF8_E4M3:
      return DecodeAll<DecodeE4M3>;
    case DType::kF8_E5M2:
      return DecodeAll<DecodeE5M2>;
  }
  return nullptr;
}

}  // namespace

void DequantizeReference(DType dtype, const void* src, float* dst, size_t n) {
  const Decoder decode = FindDecoder(dtype);
  COLIBRI_CHECK(decode != nullptr);
  const DTypeInfo& info = GetDTypeInfo(dtype);
  COLIBRI_CHECK(n % info.block_elements == 0);
  decode(static_cast<const uint8_t*>(src), dst, n / info.block_elements, info);
}

}  // namespace colibri
