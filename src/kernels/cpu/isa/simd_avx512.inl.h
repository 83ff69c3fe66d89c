// kernels/cpu/isa/simd_avx512.inl.h - sixteen float lanes of AVX-512 (F, BW, DQ, VL).
// Included inside an anonymous namespace; the same names as simd_avx2.inl.h.

constexpr int kLanes = 16;
constexpr int kTileRows = 8;
constexpr int kTileTokens = 3;
// A tile of attention: so many queries by so many vectors of positions or columns.
constexpr int kAttendQueries = 12;
constexpr int kAttendVectors = 2;

using Vec = __m512;

inline Vec Zero() {
  return _mm512_setzero_ps();
}
// One load into a register: g++ would rather repeat it as an operand of every use.
inline void KeepInRegister(Vec& v) {
  __asm__("" : "+v"(v));
}
inline Vec Set1(float x) {
  return _mm512_set1_ps(x);
}
// All lanes x, through memory: a load repeats a float for nothing, a register takes a shuffle.
inline Vec Broadcast(float x) {
  __asm__("" : "+m"(x));
  return Set1(x);
}
inline Vec Load(const void* p) {
  return _mm512_loadu_ps(p);
}
inline void Store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
inline __mmask16 FirstLanes(int n) {
  return static_cast<__mmask16>((1u << n) - 1u);
}
inline Vec LoadN(const void* p, int n) {
  return _mm512_maskz_loadu_ps(FirstLanes(n), p);
}
inline void StoreN(float* p, Vec v, int n) {
  _mm512_mask_storeu_ps(p, FirstLanes(n), v);
}
inline Vec KeepN(Vec v, int n) {
  return _mm512_maskz_mov_ps(FirstLanes(n), v);
}
inline Vec Add(Vec x, Vec y) {
  return _mm512_add_ps(x, y);
}
inline Vec Sub(Vec x, Vec y) {
  return _mm512_sub_ps(x, y);
}
inline Vec Mul(Vec x, Vec y) {
  return _mm512_mul_ps(x, y);
}
inline Vec Div(Vec x, Vec y) {
  return _mm512_div_ps(x, y);
}
inline Vec Fma(Vec x, Vec y, Vec z) {
  return _mm512_fmadd_ps(x, y, z);
}
inline Vec Max(Vec x, Vec y) {
  return _mm512_max_ps(x, y);
}
inline Vec Min(Vec x, Vec y) {
  return _mm512_min_ps(x, y);
}
inline Vec IfNegative(Vec v, Vec x, Vec y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, Zero(), _CMP_LT_OQ), y, x);
}
inline Vec NegAbs(Vec v) {
  return _mm512_or_ps(v, Set1(-0.0f));
}
inline Vec Round(Vec v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec ScaleByPower(Vec v, Vec n) {
  return _mm512_scalef_ps(v, n);
}
// The sum of lanes i and i + 8.
inline __m256 FoldLanes(Vec v) {
  return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}
inline float ReduceSum(Vec v) {
  return SumLanes(FoldLanes(v));
}
inline float ReduceMax(Vec v) {
  return MaxLanes(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
inline void ReduceSum8(const float* v, float* out) {
  __m256 lanes[8];
  for (int i = 0; i < 8; ++i) lanes[i] = FoldLanes(Load(v + i * kLanes));
  _mm256_storeu_ps(out, SumLanes8(lanes));
}

using IVec = __m512i;

inline IVec WidenBytes(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline IVec HighNibbles(IVec bytes) {
  return _mm512_srli_epi32(bytes, 4);
}
struct NibbleTable {
  __m512 values;
};
inline NibbleTable LoadTable(const float* values) {
  return {Load(values)};
}
inline NibbleTable ScaleTable(NibbleTable t, Vec scale) {
  return {Mul(scale, t.values)};
}
inline NibbleTable ScaleAndAddTable(NibbleTable t, Vec scale, Vec add) {
  return {Fma(scale, t.values, add)};
}
inline Vec Lookup(const NibbleTable& t, IVec bytes) {
  return _mm512_permutexvar_ps(bytes, t.values);
}
template <typename Sink>
[[gnu::always_inline]] inline void LookupSplit8(const NibbleTable& t, const uint8_t* p, int first,
                                                const Sink& sink) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i both = _mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4));
  sink(first, Lookup(t, _mm512_cvtepu8_epi32(both)));
}

template <typename Sink>
[[gnu::always_inline]] inline void ForEachWidened(Bytes32 v, const Sink& sink) {
  sink(0, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(v))));
  sink(1, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(v, 1))));
}
inline Vec LoadInt8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
inline void ScaleInt8(Bytes16 bytes, float low, float high, float (&out)[16]) {
  const Vec factors = _mm512_mask_blend_ps(0xff00, Set1(low), Set1(high));
  Store(out, Mul(factors, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))));
  KeepInMemory(out);
}
inline Bytes32 SpreadBits(uint32_t bits, int value) {
  return _mm256_maskz_set1_epi8(bits, static_cast<char>(value));
}

inline Vec LoadF16(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec WidenBF16(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline Vec LoadBF16(const uint8_t* p) {
  return WidenBF16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec LoadF16N(const uint8_t* p, int n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}
inline Vec LoadBF16N(const uint8_t* p, int n) {
  return WidenBF16(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}

inline Vec LoadF8E5M2(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8));
}
inline Vec LoadF8E4M3(const uint8_t* p) {
  const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i magnitude = _mm256_and_si256(bytes, _mm256_set1_epi16(0x7f));
  const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(bytes, magnitude), 8);
  const __m256i half =
      _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign), is_nan);
  return Mul(_mm512_cvtph_ps(half), Set1(256.0f));
}
