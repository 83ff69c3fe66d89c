// kernels/cpu/isa/dot_avx512.inl.h - products of bytes without VNNI: two steps and an addition.
// Included inside an anonymous namespace, after simd_avx512.inl.h.

constexpr bool kHasUnsignedDot = false;

inline IVec AddPairs(IVec sum, __m512i halves) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(halves, _mm512_set1_epi16(1)));
}
// 2 * 127 * 127 fits 16 bits; codes from 128 on would not.
template <bool kSmall>
inline IVec Dot(IVec sum, IVec codes, IVec x) {
  static_assert(kSmall);
  return AddPairs(sum, _mm512_maddubs_epi16(codes, x));
}
inline IVec DotBiased(IVec sum, IVec codes, IVec x) {
  const __m512i w = _mm512_xor_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __m512i turned = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
  return AddPairs(sum, _mm512_maddubs_epi16(_mm512_abs_epi8(w), turned));
}
