// kernels/cpu/isa/dot_avx2.inl.h - products of bytes without VNNI: two steps and an addition.
// Included inside an anonymous namespace, after simd_avx2.inl.h.

constexpr bool kHasUnsignedDot = false;

inline IVec AddPairs(IVec sum, __m256i halves) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(halves, _mm256_set1_epi16(1)));
}
// 2 * 127 * 127 fits 16 bits; codes from 128 on would not.
template <bool kSmall>
inline IVec Dot(IVec sum, IVec codes, IVec x) {
  static_assert(kSmall);
  return AddPairs(sum, _mm256_maddubs_epi16(codes, x));
}
inline IVec DotBiased(IVec sum, IVec codes, IVec x) {
  const __m256i w = _mm256_xor_si256(codes, _mm256_set1_epi8(static_cast<char>(0x80)));
  return AddPairs(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
}
