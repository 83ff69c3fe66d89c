// kernels/cpu/isa/ints_avx2.inl.h - eight lanes of 32-bit integers of AVX2, for the panels.
// Included inside an anonymous namespace, after simd_avx2.inl.h and dot_*.inl.h's constants; the
// same names as ints_generic.inl.h.

constexpr int kPanelTileTokens = 4;
constexpr int kPanelTileVecs = 1;
constexpr int kPanelOneTokenVecs = 1;

inline IVec ZeroInts() {
  return _mm256_setzero_si256();
}
inline IVec LoadInts(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline IVec AndInts(IVec v, int mask) {
  return _mm256_and_si256(v, _mm256_set1_epi32(mask));
}
inline IVec OrInts(IVec x, IVec y) {
  return _mm256_or_si256(x, y);
}
template <int kShift>
inline IVec ShiftInts(IVec v) {
  if constexpr (kShift >= 0) {
    return _mm256_slli_epi32(v, kShift);
  } else {
    return _mm256_srli_epi32(v, -kShift);
  }
}
inline IVec BroadcastInt(const void* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof(word));
  return _mm256_set1_epi32(word);
}
inline Vec BroadcastFloat(const float* p) {
  return _mm256_castsi256_ps(BroadcastInt(p));
}
inline Vec ToFloats(IVec v) {
  return _mm256_cvtepi32_ps(v);
}
inline Vec Negate(Vec v) {
  return _mm256_xor_ps(v, Set1(-0.0f));
}

using CodeTable = __m256i;
inline CodeTable LoadCodeTable(const uint8_t* codes) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)));
}
inline IVec LookUpCodes(CodeTable table, IVec nibbles) {
  return _mm256_shuffle_epi8(table, nibbles);
}

inline Vec LoadSignedBytes(const uint8_t* p) {
  return LoadInt8(p);
}
inline Vec LoadLowNibbles(const uint8_t* p) {
  return _mm256_cvtepi32_ps(AndInts(WidenBytes(p), 15));
}
inline Vec LoadHighNibbles(const uint8_t* p) {
  return _mm256_cvtepi32_ps(HighNibbles(WidenBytes(p)));
}
inline Vec LoadHalvedE8M0(const uint8_t* p) {
  const __m256i e = WidenBytes(p);
  const __m256i small =
      _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, _mm256_set1_epi32(2)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  return _mm256_castsi256_ps(_mm256_max_epi32(small, normal));
}
inline Vec LoadHalvedUE4M3(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i halves = _mm_slli_epi16(_mm_cvtepu8_epi16(bytes), 7);
  return Mul(_mm256_cvtph_ps(halves), Set1(128.0f));
}
inline void StoreBytes(int8_t* p, Vec v) {
  const __m256i words = _mm256_cvtps_epi32(v);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(halves, halves));
}
