// kernels/cpu/isa/simd_avx2.inl.h - eight float lanes of AVX2, FMA and F16C.
// Included inside an anonymous namespace; the same names as simd_generic.inl.h, and those that the
// block decoders need.

constexpr int kLanes = 8;
constexpr int kTileRows = 4;
constexpr int kTileTokens = 3;
// A tile of attention: so many queries by so many vectors of positions or columns.
constexpr int kAttendQueries = 6;
constexpr int kAttendVectors = 2;

using Vec = __m256;

inline Vec Zero() {
  return _mm256_setzero_ps();
}
// One load into a register: g++ would rather repeat it as an operand of every use.
inline void KeepInRegister(Vec& v) {
  __asm__("" : "+x"(v));
}
inline Vec Set1(float x) {
  return _mm256_set1_ps(x);
}
// All lanes x, through memory: a load repeats a float for nothing, a register takes a shuffle.
inline Vec Broadcast(float x) {
  __asm__("" : "+m"(x));
  return Set1(x);
}
inline Vec Load(const void* p) {
  return _mm256_loadu_ps(static_cast<const float*>(p));
}
inline void Store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
// All ones in the first n lanes.
inline __m256i FirstLanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec LoadN(const void* p, int n) {
  return _mm256_maskload_ps(static_cast<const float*>(p), FirstLanes(n));
}
inline void StoreN(float* p, Vec v, int n) {
  _mm256_maskstore_ps(p, FirstLanes(n), v);
}
inline Vec KeepN(Vec v, int n) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(FirstLanes(n)));
}
inline Vec Add(Vec x, Vec y) {
  return _mm256_add_ps(x, y);
}
inline Vec Sub(Vec x, Vec y) {
  return _mm256_sub_ps(x, y);
}
inline Vec Mul(Vec x, Vec y) {
  return _mm256_mul_ps(x, y);
}
inline Vec Div(Vec x, Vec y) {
  return _mm256_div_ps(x, y);
}
inline Vec Fma(Vec x, Vec y, Vec z) {
  return _mm256_fmadd_ps(x, y, z);
}
inline Vec Max(Vec x, Vec y) {
  return _mm256_max_ps(x, y);
}
inline Vec Min(Vec x, Vec y) {
  return _mm256_min_ps(x, y);
}
inline Vec IfNegative(Vec v, Vec x, Vec y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(v, Zero(), _CMP_LT_OQ));
}
inline Vec NegAbs(Vec v) {
  return _mm256_or_ps(v, Set1(-0.0f));
}
inline Vec Round(Vec v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec PowerOfTwo(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline Vec ScaleByPower(Vec v, Vec n) {
  const __m256i power = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(power, 1);
  return Mul(Mul(v, PowerOfTwo(half)), PowerOfTwo(_mm256_sub_epi32(power, half)));
}
inline float ReduceSum(Vec v) {
  return SumLanes(v);
}
inline float ReduceMax(Vec v) {
  return MaxLanes(v);
}
inline void ReduceSum8(const float* v, float* out) {
  __m256 lanes[8];
  for (int i = 0; i < 8; ++i) lanes[i] = Load(v + i * kLanes);
  _mm256_storeu_ps(out, SumLanes8(lanes));
}

// Whole numbers, one a lane.
using IVec = __m256i;

inline IVec WidenBytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
inline IVec HighNibbles(IVec bytes) {
  return _mm256_srli_epi32(bytes, 4);
}
// 16 values for the low nibbles of lanes.
struct NibbleTable {
  __m256 low, high;
};
inline NibbleTable LoadTable(const float* values) {
  return {Load(values), Load(values + 8)};
}
inline NibbleTable ScaleTable(NibbleTable t, Vec scale) {
  return {Mul(scale, t.low), Mul(scale, t.high)};
}
inline NibbleTable ScaleAndAddTable(NibbleTable t, Vec scale, Vec add) {
  return {Fma(scale, t.low, add), Fma(scale, t.high, add)};
}
inline Vec Lookup(const NibbleTable& t, IVec bytes) {
  const Vec low = _mm256_permutevar8x32_ps(t.low, bytes);
  const Vec high = _mm256_permutevar8x32_ps(t.high, bytes);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(bytes, 28)));
}
// The values of the 8 low nibbles of 8 bytes, then of the 8 high ones: 16 elements.
template <typename Sink>
[[gnu::always_inline]] inline void LookupSplit8(const NibbleTable& t, const uint8_t* p, int first,
                                                const Sink& sink) {
  const IVec bytes = WidenBytes(p);
  sink(first, Lookup(t, bytes));
  sink(first + 1, Lookup(t, HighNibbles(bytes)));
}

// Signed bytes as floats, element i of sink's vector j being byte j * kLanes + i.
template <typename Sink>
[[gnu::always_inline]] inline void ForEachWidened(Bytes32 v, const Sink& sink) {
  const __m128i low = _mm256_castsi256_si128(v);
  const __m128i high = _mm256_extracti128_si256(v, 1);
  sink(0, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low)));
  sink(1, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(low, 8))));
  sink(2, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)));
  sink(3, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(high, 8))));
}
inline Vec LoadInt8(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
// out[i] = bytes[i] times `low` for i < 8, times `high` for the others; bytes are signed.
inline void ScaleInt8(Bytes16 bytes, float low, float high, float (&out)[16]) {
  const Vec first = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  const Vec last = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
  Store(out, Mul(Set1(low), first));
  Store(out + 8, Mul(Set1(high), last));
  KeepInMemory(out);
}
// Byte i is `value` where bit i is set, else zero.
inline Bytes32 SpreadBits(uint32_t bits, int value) {
  const __m256i copies =
      _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)),
                          _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101,
                                             0x0202020202020202, 0x0303030303030303));
  const __m256i own_bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(copies, own_bit), own_bit);
  return And(is_set, value);
}

// kLanes of a 16-bit type, and the first n of them.
inline Vec LoadF16(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vec LoadBF16(const uint8_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec LoadF16N(const uint8_t* p, int n) {
  uint8_t bytes[16] = {};
  std::memcpy(bytes, p, static_cast<size_t>(n) * 2);
  return LoadF16(bytes);
}
inline Vec LoadBF16N(const uint8_t* p, int n) {
  uint8_t bytes[16] = {};
  std::memcpy(bytes, p, static_cast<size_t>(n) * 2);
  return LoadBF16(bytes);
}

// kLanes of an 8-bit float. An e5m2 is the upper half of a binary16; an e4m3's exponent and
// mantissa, moved to binary16's places, make the number times 2^-8.
inline Vec LoadF8E5M2(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), bytes));
}
inline Vec LoadF8E4M3(const uint8_t* p) {
  const __m128i bytes = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i magnitude = _mm_and_si128(bytes, _mm_set1_epi16(0x7f));
  const __m128i is_nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
  const __m128i sign = _mm_slli_epi16(_mm_xor_si128(bytes, magnitude), 8);
  const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign), is_nan);
  return Mul(_mm256_cvtph_ps(half), Set1(256.0f));
}
