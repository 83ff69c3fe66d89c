// kernels/cpu/isa/ints_avx512.inl.h - sixteen lanes of 32-bit integers of AVX-512, for the panels.
// Included inside an anonymous namespace, after simd_avx512.inl.h; the same names as
// ints_generic.inl.h.

constexpr int kPanelTileTokens = 6;
constexpr int kPanelTileVecs = 2;
constexpr int kPanelOneTokenVecs = 2;

inline IVec ZeroInts() {
  return _mm512_setzero_si512();
}
inline IVec LoadInts(const void* p) {
  return _mm512_loadu_si512(p);
}
inline IVec AndInts(IVec v, int mask) {
  return _mm512_and_si512(v, _mm512_set1_epi32(mask));
}
inline IVec OrInts(IVec x, IVec y) {
  return _mm512_or_si512(x, y);
}
template <int kShift>
inline IVec ShiftInts(IVec v) {
  if constexpr (kShift >= 0) {
    return _mm512_slli_epi32(v, kShift);
  } else {
    return _mm512_srli_epi32(v, -kShift);
  }
}
inline IVec BroadcastInt(const void* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof(word));
  return _mm512_set1_epi32(word);
}
// An integer's broadcast: g++ 12 turns a float's into a scalar load and a shuffle.
inline Vec BroadcastFloat(const float* p) {
  return _mm512_castsi512_ps(BroadcastInt(p));
}
inline Vec ToFloats(IVec v) {
  return _mm512_cvtepi32_ps(v);
}
inline Vec Negate(Vec v) {
  return _mm512_xor_ps(v, Set1(-0.0f));
}

using CodeTable = __m512i;
inline CodeTable LoadCodeTable(const uint8_t* codes) {
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)));
}
inline IVec LookUpCodes(CodeTable table, IVec nibbles) {
  return _mm512_shuffle_epi8(table, nibbles);
}

inline Vec LoadSignedBytes(const uint8_t* p) {
  return LoadInt8(p);
}
inline Vec LoadLowNibbles(const uint8_t* p) {
  return _mm512_cvtepi32_ps(AndInts(WidenBytes(p), 15));
}
inline Vec LoadHighNibbles(const uint8_t* p) {
  return _mm512_cvtepi32_ps(HighNibbles(WidenBytes(p)));
}
inline Vec LoadHalvedE8M0(const uint8_t* p) {
  const __m512i e = WidenBytes(p);
  const __m512i small =
      _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), _mm512_min_epi32(e, _mm512_set1_epi32(2)));
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  return _mm512_castsi512_ps(_mm512_max_epi32(small, normal));
}
inline Vec LoadHalvedUE4M3(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m256i halves = _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 7);
  return Mul(_mm512_cvtph_ps(halves), Set1(128.0f));
}
inline void StoreBytes(int8_t* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}
