// kernels/cpu/isa/dot_neon.inl.h - products of bytes without dot products: widened to 16 bits, and
// added in pairs.
// Included inside an anonymous namespace, after simd_neon.inl.h.

constexpr bool kHasUnsignedDot = false;

// 2 * 128 * 127 fits 16 bits.
inline IVec DotSigned(IVec sum, int8x16_t w, int8x16_t x) {
  const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
  const int16x8_t high = vmull_high_s8(w, x);
  return vpadalq_s16(sum, vpaddq_s16(low, high));
}
template <bool kSmall>
inline IVec Dot(IVec sum, IVec codes, IVec x) {
  static_assert(kSmall);
  return DotSigned(sum, vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(x));
}
inline IVec DotBiased(IVec sum, IVec codes, IVec x) {
  const int8x16_t w = veorq_s8(vreinterpretq_s8_s32(codes), vdupq_n_s8(-128));
  return DotSigned(sum, w, vreinterpretq_s8_s32(x));
}
