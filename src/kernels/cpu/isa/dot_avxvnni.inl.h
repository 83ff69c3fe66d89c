// kernels/cpu/isa/dot_avxvnni.inl.h - products of bytes by AVX-VNNI.
// Included inside an anonymous namespace, after simd_avx2.inl.h.

constexpr bool kHasUnsignedDot = true;

template <bool kSmall>
inline IVec Dot(IVec sum, IVec codes, IVec x) {
  return _mm256_dpbusd_avx_epi32(sum, codes, x);
}
inline IVec DotBiased(IVec sum, IVec, IVec) {
  return sum;
}
