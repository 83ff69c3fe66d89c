// kernels/cpu/isa/ints_neon.inl.h - four lanes of 32-bit integers of aarch64, for the panels.
// Included inside an anonymous namespace, after simd_neon.inl.h; the same names as
// ints_generic.inl.h.

// 8 integer and 8 float sums, 8 tokens' activations and 2 vectors of codes: 26 of 32 registers. One
// token takes 16 rows, whole cache lines of a panel, so that each is read once.
constexpr int kPanelTileTokens = 8;
constexpr int kPanelTileVecs = 1;
constexpr int kPanelOneTokenVecs = 4;

inline IVec ZeroInts() {
  return vdupq_n_s32(0);
}
inline IVec LoadInts(const void* p) {
  return vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(p)));
}
inline IVec AndInts(IVec v, int mask) {
  return vandq_s32(v, vdupq_n_s32(mask));
}
inline IVec OrInts(IVec x, IVec y) {
  return vorrq_s32(x, y);
}
template <int kShift>
inline IVec ShiftInts(IVec v) {
  if constexpr (kShift >= 0) {
    return vshlq_n_s32(v, kShift);
  } else {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(v), -kShift));
  }
}
inline IVec BroadcastInt(const void* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof(word));
  return vdupq_n_s32(word);
}
inline Vec BroadcastFloat(const float* p) {
  return vld1q_dup_f32(p);
}
inline Vec ToFloats(IVec v) {
  return vcvtq_f32_s32(v);
}
inline Vec Negate(Vec v) {
  return vnegq_f32(v);
}

using CodeTable = uint8x16_t;
inline CodeTable LoadCodeTable(const uint8_t* codes) {
  return vld1q_u8(codes);
}
inline IVec LookUpCodes(CodeTable table, IVec nibbles) {
  return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(nibbles)));
}

inline Vec LoadSignedBytes(const uint8_t* p) {
  return LoadInt8(p);
}
inline Vec LoadLowNibbles(const uint8_t* p) {
  return vcvtq_f32_s32(AndInts(WidenBytes(p), 15));
}
inline Vec LoadHighNibbles(const uint8_t* p) {
  return vcvtq_f32_s32(HighNibbles(WidenBytes(p)));
}
inline Vec LoadHalvedE8M0(const uint8_t* p) {
  const IVec e = WidenBytes(p);
  const IVec small = vshlq_s32(vdupq_n_s32(0x00200000), vminq_s32(e, vdupq_n_s32(2)));
  const IVec normal = vshlq_n_s32(vsubq_s32(e, vdupq_n_s32(1)), 23);
  return vreinterpretq_f32_s32(vmaxq_s32(small, normal));
}
inline Vec LoadHalvedUE4M3(const uint8_t* p) {
  return Mul(WidenF16(vshl_n_u16(WidenToHalves(p), 7)), Set1(128.0f));
}
inline void StoreBytes(int8_t* p, Vec v) {
  const int16x4_t halves = vmovn_s32(vcvtq_s32_f32(v));
  const int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
  const int32_t word = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
  std::memcpy(p, &word, sizeof(word));
}
