// kernels/cpu/isa/ints_generic.inl.h - eight lanes of 32-bit integers in plain C++, for the panels.
// Included inside an anonymous namespace, after simd_generic.inl.h; each instruction set's file
// defines the same names.

// A tile of a panel: so many tokens by so many vectors of rows, and these for one token.
constexpr int kPanelTileTokens = 2;
constexpr int kPanelTileVecs = 1;
constexpr int kPanelOneTokenVecs = 1;
// Whether Dot takes codes up to 255; otherwise codes about 128 go through DotBiased.
constexpr bool kHasUnsignedDot = true;

// Lanes 0 to 3 and 4 to 7.
struct IVec {
  Int4 a, b;
};

inline IVec ZeroInts() {
  return {Int4{}, Int4{}};
}
inline IVec LoadInts(const void* p) {
  IVec out;
  std::memcpy(&out.a, p, sizeof(out.a));
  std::memcpy(&out.b, static_cast<const char*>(p) + sizeof(out.a), sizeof(out.b));
  return out;
}
inline IVec AndInts(IVec v, int mask) {
  return {v.a & mask, v.b & mask};
}
inline IVec OrInts(IVec x, IVec y) {
  return {x.a | y.a, x.b | y.b};
}
// Every lane to the left by kShift bits, to the right (zeros follow) where kShift < 0.
template <int kShift>
inline IVec ShiftInts(IVec v) {
  typedef uint32_t UInt4 __attribute__((vector_size(16)));
  if constexpr (kShift >= 0) {
    return {v.a << kShift, v.b << kShift};
  } else {
    return {(Int4)((UInt4)v.a >> -kShift), (Int4)((UInt4)v.b >> -kShift)};
  }
}
// The four bytes at p in every lane.
inline IVec BroadcastInt(const void* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof(word));
  return {Int4{} + word, Int4{} + word};
}
// The float at p in every lane.
inline Vec BroadcastFloat(const float* p) {
  return Set1(*p);
}
// Signed byte i of every lane.
template <int kByte>
inline Int4 SignedByte(Int4 v) {
  return (v << (24 - 8 * kByte)) >> 24;
}
template <int kByte>
inline Int4 UnsignedByte(Int4 v) {
  return (v >> (8 * kByte)) & 0xff;
}
inline Int4 Dot4(Int4 sum, Int4 codes, Int4 x) {
  return sum + UnsignedByte<0>(codes) * SignedByte<0>(x) +
         UnsignedByte<1>(codes) * SignedByte<1>(x) + UnsignedByte<2>(codes) * SignedByte<2>(x) +
         UnsignedByte<3>(codes) * SignedByte<3>(x);
}
// sum + the four products of a lane's unsigned codes and signed activations. kSmall: codes are
// below 128.
template <bool kSmall>
inline IVec Dot(IVec sum, IVec codes, IVec x) {
  return {Dot4(sum.a, codes.a, x.a), Dot4(sum.b, codes.b, x.b)};
}
// The same for codes - 128.
inline IVec DotBiased(IVec sum, IVec, IVec) {
  return sum;
}
inline Float4 ToFloats(Int4 v) {
  return __builtin_convertvector(v, Float4);
}
inline Vec ToFloats(IVec v) {
  return {ToFloats(v.a), ToFloats(v.b)};
}
inline Vec Broadcast(float x) {
  return Set1(x);
}
inline Vec Negate(Vec v) {
  return {-v.a, -v.b};
}

// 16 codes for nibbles.
struct CodeTable {
  const uint8_t* codes;
};
inline CodeTable LoadCodeTable(const uint8_t* codes) {
  return {codes};
}
inline IVec LookUpCodes(CodeTable table, IVec nibbles) {
  uint8_t bytes[sizeof(IVec)];
  std::memcpy(bytes, &nibbles, sizeof(bytes));
  for (uint8_t& byte : bytes) byte = table.codes[byte & 15];
  return LoadInts(bytes);
}

// A lane from each of the next elements.
template <typename Read>
inline Vec ReadLanes(Read read) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = read(i);
  return Load(lanes);
}
inline float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline Vec LoadSignedBytes(const uint8_t* p) {
  return LoadInt8(p);
}
inline Vec LoadLowNibbles(const uint8_t* p) {
  return ReadLanes([p](int i) { return static_cast<float>(p[i] & 15); });
}
inline Vec LoadHighNibbles(const uint8_t* p) {
  return ReadLanes([p](int i) { return static_cast<float>(p[i] >> 4); });
}
// 2^(bits - 128).
inline Vec LoadHalvedE8M0(const uint8_t* p) {
  return ReadLanes([p](int i) {
    return FloatOfBits(p[i] < 2 ? 0x00200000u << p[i] : static_cast<uint32_t>(p[i] - 1) << 23);
  });
}
// Half of an unsigned e4m3, all of whose patterns are numbers.
inline Vec LoadHalvedUE4M3(const uint8_t* p) {
  return ReadLanes([p](int i) {
    const uint8_t half[2] = {static_cast<uint8_t>(p[i] << 7), static_cast<uint8_t>(p[i] >> 1)};
    return Half(half) * 128.0f;
  });
}
// Whole numbers of at most 127 as bytes.
inline void StoreBytes(int8_t* p, Vec v) {
  float lanes[kLanes];
  Store(lanes, v);
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(lanes[i]);
}
[[gnu::always_inline]] inline void PrefetchL1(const void* p) {
  __builtin_prefetch(p, 0, 3);
}
[[gnu::always_inline]] inline void PrefetchL2(const void* p) {
  __builtin_prefetch(p, 0, 2);
}
