// kernels/cpu/generic/blocks.inl.h - stored types as vectors of float32.
// Included inside an anonymous namespace, after the instruction set's vectors.
//
// Each type is a struct:
//   kElements, kBytes   of a block; it has kParts equal parts
//   Factors, Prepare()  what the parts share, from a block
//   Part<k>()           hands part k's vectors to sink(i, v) in order of i: v holds the block's
//                       elements i * kLanes and on
// The values are bit-equal to tensor/dequantize.h: products of a half-precision scale, a 6-bit
// scale and a quant are exact in float32, so scale * q + min has one rounding, fused or not.

// For types whose parts share nothing.
struct NoFactors {};
struct SixteenFactors {
  alignas(64) float scale[16];
};
struct ScalesAndMins {
  alignas(64) float scale[16];
  alignas(64) float min[16];
};

alignas(64) constexpr float kZeroTo15[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
alignas(64) constexpr float kMinus8To7[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                              0,  1,  2,  3,  4,  5,  6,  7};
// The levels of iq4_nl and iq4_xs.
alignas(64) constexpr float kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of e2m1; the scale is halved in return.
alignas(64) constexpr float kFp4Doubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

inline uint32_t Word(const uint8_t* p) {
  uint32_t out;
  std::memcpy(&out, p, sizeof(out));
  return out;
}
inline float FloatOfBits(uint32_t bits) {
  float out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}

inline Vec BroadcastHalf(const uint8_t* p) {
  return Broadcast(Half(p));
}

// 16 bytes: the values of their low nibbles, then of their high ones.
template <typename Sink>
[[gnu::always_inline]] inline void LookupSplit16(const NibbleTable& table, const uint8_t* p,
                                                 int first, const Sink& sink) {
  constexpr int kVectors = 16 / kLanes;
  IVec bytes[kVectors];
  for (int j = 0; j < kVectors; ++j) bytes[j] = WidenBytes(p + j * kLanes);
  for (int j = 0; j < kVectors; ++j) sink(first + j, Lookup(table, bytes[j]));
  for (int j = 0; j < kVectors; ++j) {
    sink(first + kVectors + j, Lookup(table, HighNibbles(bytes[j])));
  }
}

struct Q4_0 {
  static constexpr int kElements = 32, kParts = 1, kBytes = 18;
  using Factors = NoFactors;
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    LookupSplit16(ScaleTable(LoadTable(kMinus8To7), BroadcastHalf(block)), block + 2, 0, sink);
  }
};

struct Q4_1 {
  static constexpr int kElements = 32, kParts = 1, kBytes = 20;
  using Factors = NoFactors;
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    const NibbleTable table =
        ScaleAndAddTable(LoadTable(kZeroTo15), BroadcastHalf(block), BroadcastHalf(block + 2));
    LookupSplit16(table, block + 4, 0, sink);
  }
};

struct Q5_0 {
  static constexpr int kElements = 32, kParts = 1, kBytes = 22;
  using Factors = NoFactors;
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    const Vec d = BroadcastHalf(block);
    const Bytes32 q = Or(SplitNibbles(block + 6), SpreadBits(Word(block + 2), 16));
    ForEachWidened(
        SubtractBytes(q, 16), [&](int i, Vec v)
                                  __attribute__((always_inline)) { sink(i, Mul(d, v)); });
  }
};

struct Q5_1 {
  static constexpr int kElements = 32, kParts = 1, kBytes = 24;
  using Factors = NoFactors;
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    const Vec d = BroadcastHalf(block), m = BroadcastHalf(block + 2);
    const Bytes32 q = Or(SplitNibbles(block + 8), SpreadBits(Word(block + 4), 16));
    ForEachWidened(
        q, [&](int i, Vec v) __attribute__((always_inline)) { sink(i, Fma(d, v, m)); });
  }
};

struct Q8_0 {
  static constexpr int kElements = 32, kParts = 1, kBytes = 34;
  using Factors = NoFactors;
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    const Vec d = BroadcastHalf(block);
    for (int i = 0; i < 32 / kLanes; ++i) sink(i, Mul(d, LoadInt8(block + 2 + i * kLanes)));
  }
};

struct IQ4_NL {
  static constexpr int kElements = 32, kParts = 1, kBytes = 18;
  using Factors = NoFactors;
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    LookupSplit16(ScaleTable(LoadTable(kIq4Levels), BroadcastHalf(block)), block + 2, 0, sink);
  }
};

struct MXFP4 {
  static constexpr int kElements = 32, kParts = 1, kBytes = 17;
  using Factors = NoFactors;
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    // Half of 2^(bits - 127).
    const uint32_t bits = block[0];
    const float d = FloatOfBits(bits < 2 ? 0x00200000u << bits : (bits - 1) << 23);
    LookupSplit16(ScaleTable(LoadTable(kFp4Doubled), Broadcast(d)), block + 1, 0, sink);
  }
};

struct NVFP4 {
  static constexpr int kElements = 64, kParts = 4, kBytes = 36;
  using Factors = NoFactors;
  // Half of an unsigned e4m3 scale; the NaN pattern counts as zero.
  static float HalvedScale(uint32_t bits) {
    if (bits == 0 || bits == 0x7f) return 0.0f;
    const uint32_t exponent = (bits >> 3) & 0xf;
    const auto mantissa = static_cast<float>(bits & 7);
    if (exponent == 0) return mantissa * 0x1p-10f;
    return FloatOfBits((exponent + 119) << 23) * (1.0f + mantissa * 0.125f);
  }
  [[gnu::always_inline]] static void Prepare(const uint8_t*, Factors&) {}
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors&, const Sink& sink) {
    const Vec scale = Broadcast(HalvedScale(block[kPart]));
    LookupSplit8(ScaleTable(LoadTable(kFp4Doubled), scale), block + 4 + 8 * kPart,
                 kPart * 16 / kLanes, sink);
  }
};

// The eight 6-bit scales and minima that q4_k and q5_k share: scale[0..7] = d * scale,
// scale[8..15] = -dmin * min.
inline void UnpackScalesAndMins(const uint8_t* block, SixteenFactors& out) {
  const uint32_t a = Word(block + 4), b = Word(block + 8), c = Word(block + 12);
  const Bytes16 bytes =
      BytesOfWords(a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u), b & 0x3f3f3f3fu,
                   ((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u));
  ScaleInt8(bytes, Half(block), -Half(block + 2), out.scale);
}

struct Q4_K {
  static constexpr int kElements = 256, kParts = 4, kBytes = 144;
  using Factors = SixteenFactors;
  static void Prepare(const uint8_t* block, Factors& out) { UnpackScalesAndMins(block, out); }
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors& f,
                                          const Sink& sink) {
    constexpr int kVectors = 32 / kLanes, kGroup = 2 * kPart, kFirst = kGroup * kVectors;
    const NibbleTable levels = LoadTable(kZeroTo15);
    const NibbleTable low =
        ScaleAndAddTable(levels, Set1(f.scale[kGroup]), Set1(f.scale[kGroup + 8]));
    const NibbleTable high =
        ScaleAndAddTable(levels, Set1(f.scale[kGroup + 1]), Set1(f.scale[kGroup + 9]));
    IVec bytes[kVectors];
    for (int j = 0; j < kVectors; ++j) bytes[j] = WidenBytes(block + 16 + 32 * kPart + j * kLanes);
    for (int j = 0; j < kVectors; ++j) sink(kFirst + j, Lookup(low, bytes[j]));
    for (int j = 0; j < kVectors; ++j) {
      sink(kFirst + kVectors + j, Lookup(high, HighNibbles(bytes[j])));
    }
  }
};

struct Q5_K {
  static constexpr int kElements = 256, kParts = 8, kBytes = 176;
  using Factors = SixteenFactors;
  static void Prepare(const uint8_t* block, Factors& out) { UnpackScalesAndMins(block, out); }
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors& f,
                                          const Sink& sink) {
    const Bytes32 both = LoadBytes32(block + 48 + 32 * (kPart / 2));
    const Bytes32 low = And(ShiftRight(both, 4 * (kPart % 2)), 0xf);
    // Bit kPart of a high byte to bit 4.
    const Bytes32 high = LoadBytes32(block + 16);
    const Bytes32 bit = kPart < 4 ? ShiftLeft(high, 4 - kPart) : ShiftRight(high, kPart - 4);
    const Vec scale = Set1(f.scale[kPart]), min = Set1(f.scale[kPart + 8]);
    ForEachWidened(
        Or(low, And(bit, 16)), [&](int i, Vec v) __attribute__((always_inline)) {
          sink(kPart * (32 / kLanes) + i, Fma(scale, v, min));
        });
  }
};

struct Q6_K {
  static constexpr int kElements = 256, kParts = 8, kBytes = 210;
  using Factors = SixteenFactors;
  static void Prepare(const uint8_t* block, Factors& out) {
    const float d = Half(block + 208);
    ScaleInt8(LoadBytes16(block + 192), d, d, out.scale);
  }
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors& f,
                                          const Sink& sink) {
    constexpr int kHalf = kPart / 4, kQuarter = kPart % 4;
    const Bytes32 low = LoadBytes32(block + 64 * kHalf + 32 * (kQuarter % 2));
    const Bytes32 high = LoadBytes32(block + 128 + 32 * kHalf);
    // Bits 2 * kQuarter and the next one of a high byte to bits 4 and 5.
    const Bytes32 bits =
        kQuarter < 2 ? ShiftLeft(high, 4 - 2 * kQuarter) : ShiftRight(high, 2 * kQuarter - 4);
    const Bytes32 q = Or(And(ShiftRight(low, 4 * (kQuarter / 2)), 0xf), And(bits, 0x30));
    ForEachWidened(
        SubtractBytes(q, 32), [&](int i, Vec v) __attribute__((always_inline)) {
          sink(kPart * (32 / kLanes) + i, Mul(Set1(f.scale[2 * kPart + i * kLanes / 16]), v));
        });
  }
};

struct Q2_K {
  static constexpr int kElements = 256, kParts = 8, kBytes = 84;
  using Factors = ScalesAndMins;
  static void Prepare(const uint8_t* block, Factors& out) {
    const Bytes16 both = LoadBytes16(block);
    const float d = Half(block + 80), minus_dmin = -Half(block + 82);
    ScaleInt8(AndBytes(both, 0xf), d, d, out.scale);
    ScaleInt8(AndBytes(ShiftBytesRight(both, 4), 0xf), minus_dmin, minus_dmin, out.min);
  }
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors& f,
                                          const Sink& sink) {
    const Bytes32 bytes = LoadBytes32(block + 16 + 32 * (kPart / 4));
    const Bytes32 q = And(ShiftRight(bytes, 2 * (kPart % 4)), 3);
    ForEachWidened(
        q, [&](int i, Vec v) __attribute__((always_inline)) {
          const int group = 2 * kPart + i * kLanes / 16;
          sink(kPart * (32 / kLanes) + i, Fma(Set1(f.scale[group]), v, Set1(f.min[group])));
        });
  }
};

struct Q3_K {
  static constexpr int kElements = 256, kParts = 8, kBytes = 110;
  using Factors = SixteenFactors;
  static void Prepare(const uint8_t* block, Factors& out) {
    // Sixteen 6-bit scales: low nibbles in 8 bytes, upper pairs of bits in the last 4.
    const uint32_t a = Word(block + 96), b = Word(block + 100), c = Word(block + 104);
    const Bytes16 bytes = BytesOfWords((a & 0x0f0f0f0fu) | ((c << 4) & 0x30303030u),
                                       (b & 0x0f0f0f0fu) | ((c << 2) & 0x30303030u),
                                       ((a >> 4) & 0x0f0f0f0fu) | (c & 0x30303030u),
                                       ((b >> 4) & 0x0f0f0f0fu) | ((c >> 2) & 0x30303030u));
    const float d = Half(block + 108);
    ScaleInt8(SubtractBytes(bytes, 32), d, d, out.scale);
  }
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors& f,
                                          const Sink& sink) {
    const Bytes32 both = LoadBytes32(block + 32 + 32 * (kPart / 4));
    const Bytes32 low = And(ShiftRight(both, 2 * (kPart % 4)), 3);
    // Bit kPart of a high byte to bit 2; where it is not set, four is taken away.
    const Bytes32 high = LoadBytes32(block);
    const Bytes32 bit = kPart < 2 ? ShiftLeft(high, 2 - kPart) : ShiftRight(high, kPart - 2);
    const Bytes32 q = SubtractBytes(Or(low, And(bit, 4)), 4);
    ForEachWidened(
        q, [&](int i, Vec v) __attribute__((always_inline)) {
          sink(kPart * (32 / kLanes) + i, Mul(Set1(f.scale[2 * kPart + i * kLanes / 16]), v));
        });
  }
};

struct IQ4_XS {
  static constexpr int kElements = 256, kParts = 8, kBytes = 136;
  using Factors = SixteenFactors;  // the first eight
  static void Prepare(const uint8_t* block, Factors& out) {
    // Eight 6-bit scales: low nibbles in 4 bytes, upper pairs of bits in the 16 bits before them.
    const float d = Half(block);
    const uint32_t high = Word(block + 2), low = Word(block + 4);
    for (int group = 0; group < 8; ++group) {
      const uint32_t bits = ((low >> (4 * group)) & 0xf) | (((high >> (2 * group)) & 3) << 4);
      out.scale[group] = d * static_cast<float>(static_cast<int32_t>(bits) - 32);
    }
  }
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors& f,
                                          const Sink& sink) {
    LookupSplit16(ScaleTable(LoadTable(kIq4Levels), Set1(f.scale[kPart])), block + 8 + 16 * kPart,
                  kPart * (32 / kLanes), sink);
  }
};

struct TQ2_0 {
  static constexpr int kElements = 256, kParts = 8, kBytes = 66;
  using Factors = Vec;
  static void Prepare(const uint8_t* block, Factors& out) { out = BroadcastHalf(block + 64); }
  template <int kPart, typename Sink>
  [[gnu::always_inline]] static void Part(const uint8_t* block, const Factors& d,
                                          const Sink& sink) {
    const Bytes32 bytes = LoadBytes32(block + 32 * (kPart / 4));
    const Bytes32 q = And(ShiftRight(bytes, 2 * (kPart % 4)), 3);
    ForEachWidened(
        SubtractBytes(q, 1), [&](int i, Vec v) __attribute__((always_inline)) {
          sink(kPart * (32 / kLanes) + i, Mul(d, v));
        });
  }
};

// The plain types: no blocks, rows of any length.
struct F16 {
  static constexpr size_t kBytes = 2;
  static Vec LoadAll(const uint8_t* p) { return LoadF16(p); }
  static Vec LoadFirst(const uint8_t* p, int n) { return LoadF16N(p, n); }
};
struct BF16 {
  static constexpr size_t kBytes = 2;
  static Vec LoadAll(const uint8_t* p) { return LoadBF16(p); }
  static Vec LoadFirst(const uint8_t* p, int n) { return LoadBF16N(p, n); }
};

// The 8-bit floats need few bytes a row, so their last ones may take a copy.
template <Vec (*kLoad)(const uint8_t*)>
struct EightBit {
  static constexpr size_t kBytes = 1;
  static Vec LoadAll(const uint8_t* p) { return kLoad(p); }
  static Vec LoadFirst(const uint8_t* p, int n) {
    uint8_t bytes[kLanes] = {};
    std::memcpy(bytes, p, static_cast<size_t>(n));
    return kLoad(bytes);
  }
};
using F8_E4M3 = EightBit<LoadF8E4M3>;
using F8_E5M2 = EightBit<LoadF8E5M2>;
