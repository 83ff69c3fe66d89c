// kernels/cpu/isa/pair_avx512bf16.inl.h - products of pairs of bfloat16 by AVX-512 BF16.
// Included inside an anonymous namespace, after simd_avx512.inl.h; the same names as
// generic/pair_fma.inl.h.

constexpr int kBf16TileVecs = 2;
constexpr int kBf16TileTokens = 8;

using Pair = __m512bh;
[[gnu::always_inline]] inline Pair ToPair(IVec words) {
  return (__m512bh)words;
}
[[gnu::always_inline]] inline Vec AddPair(Vec sum, Pair w, Pair x) {
  return _mm512_dpbf16_ps(sum, w, x);
}
