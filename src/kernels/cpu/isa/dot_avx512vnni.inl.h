// kernels/cpu/isa/dot_avx512vnni.inl.h - products of bytes by AVX-512 VNNI.
// Included inside an anonymous namespace, after simd_avx512.inl.h.

constexpr bool kHasUnsignedDot = true;

template <bool kSmall>
inline IVec Dot(IVec sum, IVec codes, IVec x) {
  return _mm512_dpbusd_epi32(sum, codes, x);
}
inline IVec DotBiased(IVec sum, IVec, IVec) {
  return sum;
}
