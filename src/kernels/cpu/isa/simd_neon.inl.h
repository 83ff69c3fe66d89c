// kernels/cpu/isa/simd_neon.inl.h - four float lanes of aarch64's Advanced SIMD.
// Included inside an anonymous namespace; the same names as simd_avx2.inl.h. What all of these CPUs
// have is enough: fused multiply-add and binary16 conversion among it.

constexpr int kLanes = 4;
constexpr int kTileRows = 8;
constexpr int kTileTokens = 3;
// A tile of attention: so many queries by so many vectors of positions or columns. With the vectors
// and a query's number, 29 of 32 registers.
constexpr int kAttendQueries = 6;
constexpr int kAttendVectors = 4;

using Vec = float32x4_t;

inline Vec Zero() {
  return vdupq_n_f32(0.0f);
}
// One load into a register, not one for every use.
inline void KeepInRegister(Vec& v) {
  __asm__("" : "+w"(v));
}
inline Vec Set1(float x) {
  return vdupq_n_f32(x);
}
// All lanes x: a load repeats it, and a product takes it from a register's lane as it is.
inline Vec Broadcast(float x) {
  return Set1(x);
}
inline Vec Load(const void* p) {
  return vld1q_f32(static_cast<const float*>(p));
}
inline void Store(float* p, Vec v) {
  vst1q_f32(p, v);
}
inline Vec LoadN(const void* p, int n) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return Load(lanes);
}
inline void StoreN(float* p, Vec v, int n) {
  float lanes[kLanes];
  Store(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}
inline Vec KeepN(Vec v, int n) {
  const int32x4_t lane = {0, 1, 2, 3};
  const uint32x4_t is_kept = vcgtq_s32(vdupq_n_s32(n), lane);
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), is_kept));
}
inline Vec Add(Vec x, Vec y) {
  return vaddq_f32(x, y);
}
inline Vec Sub(Vec x, Vec y) {
  return vsubq_f32(x, y);
}
inline Vec Mul(Vec x, Vec y) {
  return vmulq_f32(x, y);
}
inline Vec Div(Vec x, Vec y) {
  return vdivq_f32(x, y);
}
inline Vec Fma(Vec x, Vec y, Vec z) {
  return vfmaq_f32(z, x, y);
}
// This CPU's own maximum would be NaN where either is; the rule is y.
inline Vec Max(Vec x, Vec y) {
  return vbslq_f32(vcgtq_f32(x, y), x, y);
}
inline Vec Min(Vec x, Vec y) {
  return vbslq_f32(vcltq_f32(x, y), x, y);
}
inline Vec IfNegative(Vec v, Vec x, Vec y) {
  return vbslq_f32(vcltzq_f32(v), x, y);
}
inline Vec NegAbs(Vec v) {
  return vnegq_f32(vabsq_f32(v));
}
inline Vec Round(Vec v) {
  return vrndnq_f32(v);
}
inline Vec PowerOfTwo(int32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
inline Vec ScaleByPower(Vec v, Vec n) {
  const int32x4_t power = vcvtq_s32_f32(n);
  const int32x4_t half = vshrq_n_s32(power, 1);
  return Mul(Mul(v, PowerOfTwo(half)), PowerOfTwo(vsubq_s32(power, half)));
}
// (0 + 1) + (2 + 3), as ReduceSum8 adds them.
inline float ReduceSum(Vec v) {
  return vaddvq_f32(v);
}
inline float ReduceMax(Vec v) {
  const Vec pairs = Max(v, vextq_f32(v, v, 2));
  return vgetq_lane_f32(Max(pairs, vextq_f32(pairs, pairs, 1)), 0);
}
inline void ReduceSum8(const float* v, float* out) {
  for (int i = 0; i < 8; i += 4) {
    const Vec v01 = vpaddq_f32(Load(v + i * kLanes), Load(v + (i + 1) * kLanes));
    const Vec v23 = vpaddq_f32(Load(v + (i + 2) * kLanes), Load(v + (i + 3) * kLanes));
    Store(out + i, vpaddq_f32(v01, v23));
  }
}

// out[j][i] = in[i][j] for i, j < 4; rows are a stride apart.
inline void Transpose4x4(const float* in, size_t in_stride, float* out, size_t out_stride) {
  const Vec r0 = Load(in), r1 = Load(in + in_stride);
  const Vec r2 = Load(in + 2 * in_stride), r3 = Load(in + 3 * in_stride);
  const auto even01 = vreinterpretq_f64_f32(vtrn1q_f32(r0, r1));
  const auto odd01 = vreinterpretq_f64_f32(vtrn2q_f32(r0, r1));
  const auto even23 = vreinterpretq_f64_f32(vtrn1q_f32(r2, r3));
  const auto odd23 = vreinterpretq_f64_f32(vtrn2q_f32(r2, r3));
  Store(out, vreinterpretq_f32_f64(vtrn1q_f64(even01, even23)));
  Store(out + out_stride, vreinterpretq_f32_f64(vtrn1q_f64(odd01, odd23)));
  Store(out + 2 * out_stride, vreinterpretq_f32_f64(vtrn2q_f64(even01, even23)));
  Store(out + 3 * out_stride, vreinterpretq_f32_f64(vtrn2q_f64(odd01, odd23)));
}
inline void Transpose8x8(const float* in, size_t in_stride, float* out, size_t out_stride) {
  for (size_t i = 0; i < 8; i += 4) {
    for (size_t j = 0; j < 8; j += 4) {
      Transpose4x4(in + i * in_stride + j, in_stride, out + j * out_stride + i, out_stride);
    }
  }
}

// 16 bytes given as four little-endian words, or as they lie in memory; and 32 bytes.
using Bytes16 = uint8x16_t;
using Bytes32 = uint8x16x2_t;

inline Bytes16 BytesOfWords(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const uint32x4_t words = {a, b, c, d};
  return vreinterpretq_u8_u32(words);
}
inline Bytes16 LoadBytes16(const uint8_t* p) {
  return vld1q_u8(p);
}
inline Bytes16 AndBytes(Bytes16 v, int bits) {
  return vandq_u8(v, vdupq_n_u8(static_cast<uint8_t>(bits)));
}
inline Bytes16 ShiftBytesRight(Bytes16 v, int n) {
  return vshlq_u8(v, vdupq_n_s8(static_cast<int8_t>(-n)));
}
inline Bytes16 SubtractBytes(Bytes16 v, int subtrahend) {
  return vsubq_u8(v, vdupq_n_u8(static_cast<uint8_t>(subtrahend)));
}
inline Bytes32 LoadBytes32(const uint8_t* p) {
  return {{vld1q_u8(p), vld1q_u8(p + 16)}};
}
inline Bytes32 And(Bytes32 v, int bits) {
  return {{AndBytes(v.val[0], bits), AndBytes(v.val[1], bits)}};
}
inline Bytes32 Or(Bytes32 a, Bytes32 b) {
  return {{vorrq_u8(a.val[0], b.val[0]), vorrq_u8(a.val[1], b.val[1])}};
}
inline Bytes32 SubtractBytes(Bytes32 v, int subtrahend) {
  return {{SubtractBytes(v.val[0], subtrahend), SubtractBytes(v.val[1], subtrahend)}};
}
inline Bytes32 ShiftRight(Bytes32 v, int n) {
  return {{ShiftBytesRight(v.val[0], n), ShiftBytesRight(v.val[1], n)}};
}
inline Bytes32 ShiftLeft(Bytes32 v, int n) {
  return ShiftRight(v, -n);
}
// The low nibbles of 16 bytes, then the high ones.
inline Bytes32 SplitNibbles(const uint8_t* p) {
  const Bytes16 bytes = LoadBytes16(p);
  return {{AndBytes(bytes, 0xf), ShiftBytesRight(bytes, 4)}};
}
// Byte i is `value` where bit i is set, else zero.
inline Bytes32 SpreadBits(uint32_t bits, int value) {
  const Bytes16 all = vreinterpretq_u8_u32(vdupq_n_u32(bits));
  const Bytes16 first = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  const Bytes16 own_bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const Bytes16 low = vqtbl1q_u8(all, first);
  const Bytes16 high = vqtbl1q_u8(all, vaddq_u8(first, vdupq_n_u8(2)));
  return And({{vtstq_u8(low, own_bit), vtstq_u8(high, own_bit)}}, value);
}

inline float Half(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
}
// The nearest binary16, ties to even; infinity beyond its range.
inline uint16_t RoundToHalf(float x) {
  return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(Set1(x))), 0);
}

// Whole numbers, one a lane.
using IVec = int32x4_t;

// Four bytes as the first of eight.
inline uint8x8_t LoadFourBytes(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return vreinterpret_u8_u32(vdup_n_u32(word));
}
inline uint16x4_t WidenToHalves(const uint8_t* p) {
  return vget_low_u16(vmovl_u8(LoadFourBytes(p)));
}
inline IVec WidenBytes(const uint8_t* p) {
  return vreinterpretq_s32_u32(vmovl_u16(WidenToHalves(p)));
}
inline IVec HighNibbles(IVec bytes) {
  return vshrq_n_s32(bytes, 4);
}
// 16 values for the low nibbles of lanes.
struct NibbleTable {
  Vec values[4];
};
inline NibbleTable LoadTable(const float* values) {
  return {{Load(values), Load(values + 4), Load(values + 8), Load(values + 12)}};
}
inline NibbleTable ScaleTable(NibbleTable t, Vec scale) {
  for (Vec& v : t.values) v = Mul(scale, v);
  return t;
}
inline NibbleTable ScaleAndAddTable(NibbleTable t, Vec scale, Vec add) {
  for (Vec& v : t.values) v = Fma(scale, v, add);
  return t;
}
// The CPU looks bytes up: value n is bytes 4 n to 4 n + 3 of the table.
inline Vec Lookup(const NibbleTable& t, IVec bytes) {
  uint8x16x4_t table;
  for (int i = 0; i < 4; ++i) table.val[i] = vreinterpretq_u8_f32(t.values[i]);
  const IVec nibbles = vandq_s32(bytes, vdupq_n_s32(15));
  const IVec places = vmlaq_s32(vdupq_n_s32(0x03020100), nibbles, vdupq_n_s32(0x04040404));
  return vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_s32(places)));
}
// The values of the 8 low nibbles of 8 bytes, then of the 8 high ones: 16 elements.
template <typename Sink>
[[gnu::always_inline]] inline void LookupSplit8(const NibbleTable& t, const uint8_t* p, int first,
                                                const Sink& sink) {
  const IVec low = WidenBytes(p), high = WidenBytes(p + kLanes);
  sink(first, Lookup(t, low));
  sink(first + 1, Lookup(t, high));
  sink(first + 2, Lookup(t, HighNibbles(low)));
  sink(first + 3, Lookup(t, HighNibbles(high)));
}

// 16 signed bytes as floats.
struct FourVecs {
  Vec v[4];
};
inline FourVecs WidenSigned(Bytes16 bytes) {
  const int16x8_t low = vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(bytes)));
  const int16x8_t high = vmovl_high_s8(vreinterpretq_s8_u8(bytes));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))}};
}
// Signed bytes as floats, element i of sink's vector j being byte j * kLanes + i.
template <typename Sink>
[[gnu::always_inline]] inline void ForEachWidened(Bytes32 v, const Sink& sink) {
  const FourVecs low = WidenSigned(v.val[0]), high = WidenSigned(v.val[1]);
  for (int i = 0; i < 4; ++i) sink(i, low.v[i]);
  for (int i = 0; i < 4; ++i) sink(4 + i, high.v[i]);
}
inline Vec LoadInt8(const uint8_t* p) {
  const int16x8_t halves = vmovl_s8(vreinterpret_s8_u8(LoadFourBytes(p)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(halves)));
}
// out[i] = bytes[i] times `low` for i < 8, times `high` for the others; bytes are signed.
inline void ScaleInt8(Bytes16 bytes, float low, float high, float (&out)[16]) {
  const FourVecs values = WidenSigned(bytes);
  for (int i = 0; i < 4; ++i) Store(out + i * kLanes, Mul(Set1(i < 2 ? low : high), values.v[i]));
}

// kLanes of a 16-bit type, and the first n of them.
inline Vec WidenF16(uint16x4_t bits) {
  return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}
inline uint16x4_t LoadHalves(const uint8_t* p) {
  return vreinterpret_u16_u8(vld1_u8(p));
}
inline Vec LoadF16(const uint8_t* p) {
  return WidenF16(LoadHalves(p));
}
inline Vec LoadBF16(const uint8_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(LoadHalves(p), 16));
}
inline Vec LoadF16N(const uint8_t* p, int n) {
  uint8_t bytes[8] = {};
  std::memcpy(bytes, p, static_cast<size_t>(n) * 2);
  return LoadF16(bytes);
}
inline Vec LoadBF16N(const uint8_t* p, int n) {
  uint8_t bytes[8] = {};
  std::memcpy(bytes, p, static_cast<size_t>(n) * 2);
  return LoadBF16(bytes);
}

// kLanes of an 8-bit float. An e5m2 is the upper half of a binary16; an e4m3's exponent and
// mantissa, moved to binary16's places, make the number times 2^-8.
inline Vec LoadF8E5M2(const uint8_t* p) {
  return WidenF16(vshl_n_u16(WidenToHalves(p), 8));
}
inline Vec LoadF8E4M3(const uint8_t* p) {
  const uint16x4_t bytes = WidenToHalves(p);
  const uint16x4_t magnitude = vand_u16(bytes, vdup_n_u16(0x7f));
  const uint16x4_t is_nan = vceq_u16(magnitude, vdup_n_u16(0x7f));
  const uint16x4_t sign = vshl_n_u16(veor_u16(bytes, magnitude), 8);
  const uint16x4_t half = vorr_u16(vorr_u16(vshl_n_u16(magnitude, 7), sign), is_nan);
  return Mul(WidenF16(half), Set1(256.0f));
}

// Inlined always, as simd_x86.inl.h says.
[[gnu::always_inline]] inline void PrefetchL1(const void* p) {
  __builtin_prefetch(p, 0, 3);
}
[[gnu::always_inline]] inline void PrefetchL2(const void* p) {
  __builtin_prefetch(p, 0, 2);
}
