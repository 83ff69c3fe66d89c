// kernels/cpu/isa/simd_x86.inl.h - what AVX2 and AVX-512 share: bytes on their way to lanes.
// Included inside an anonymous namespace, before the instruction set's own vectors.

// 32 bytes, one for each element of half a block's values.
using Bytes32 = __m256i;

inline Bytes32 LoadBytes32(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline Bytes32 And(Bytes32 v, int bits) {
  return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(bits)));
}
inline Bytes32 Or(Bytes32 a, Bytes32 b) {
  return _mm256_or_si256(a, b);
}
inline Bytes32 SubtractBytes(Bytes32 v, int subtrahend) {
  return _mm256_sub_epi8(v, _mm256_set1_epi8(static_cast<char>(subtrahend)));
}
// Bits move between neighbouring bytes: And must follow.
inline Bytes32 ShiftRight(Bytes32 v, int n) {
  return _mm256_srli_epi16(v, n);
}
inline Bytes32 ShiftLeft(Bytes32 v, int n) {
  return _mm256_slli_epi16(v, n);
}
// The low nibbles of 16 bytes, then the high ones.
inline Bytes32 SplitNibbles(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m256i both =
      _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
  return And(both, 0xf);
}
// Floats that are read back one by one, each into all lanes: a load does that for nothing, where
// g++ would shuffle them out of the register that wrote them.
template <size_t kCount>
inline void KeepInMemory(float (&values)[kCount]) {
  __asm__("" : "+m"(values));
}
// 16 bytes given as four little-endian words, or as they lie in memory.
using Bytes16 = __m128i;
inline Bytes16 BytesOfWords(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return _mm_setr_epi32(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c),
                        static_cast<int>(d));
}
inline Bytes16 LoadBytes16(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline Bytes16 AndBytes(Bytes16 v, int bits) {
  return _mm_and_si128(v, _mm_set1_epi8(static_cast<char>(bits)));
}
inline Bytes16 ShiftBytesRight(Bytes16 v, int n) {
  return _mm_srli_epi16(v, n);
}
inline Bytes16 SubtractBytes(Bytes16 v, int subtrahend) {
  return _mm_sub_epi8(v, _mm_set1_epi8(static_cast<char>(subtrahend)));
}
inline float Half(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return _cvtsh_ss(bits);
}
// The nearest binary16, ties to even; infinity beyond its range.
inline uint16_t RoundToHalf(float x) {
  const __m128i halves = _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT);
  return static_cast<uint16_t>(_mm_cvtsi128_si32(halves));
}

// out[j][i] = in[i][j] for i, j < 8; rows are a stride apart.
inline void Transpose8x8(const float* in, size_t in_stride, float* out, size_t out_stride) {
  __m256 row[8], pair[8], quad[8];
  for (size_t i = 0; i < 8; ++i) row[i] = _mm256_loadu_ps(in + i * in_stride);
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
  for (size_t i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + i * out_stride, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * out_stride,
                     _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
  }
}

// [i] the sum of the lanes of v[i], each as ((0+1)+(2+3)) + ((4+5)+(6+7)).
inline __m256 SumLanes8(const __m256* v) {
  const __m256 v0123 = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  const __m256 v4567 = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
  return _mm256_add_ps(_mm256_permute2f128_ps(v0123, v4567, 0x20),
                       _mm256_permute2f128_ps(v0123, v4567, 0x31));
}
inline float SumLanes(__m256 v) {
  const __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pairs = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
}
inline float MaxLanes(__m256 v) {
  const __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pairs = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(pairs, _mm_movehdup_ps(pairs)));
}
// Inlined always: g++ drops calls of functions that only prefetch.
[[gnu::always_inline]] inline void PrefetchL1(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
[[gnu::always_inline]] inline void PrefetchL2(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}
