// kernels/cpu/generic/panel_formats.inl.h - how each type's codes and scales come out of a panel
// (tensor/packed.h). Included inside an anonymous namespace, after panel_rows.inl.h.
//
// A format says, for the vector of rows that begins at `row`:
//   kHeaderBytes, kGroups, kGroupBytes   the shape of a block
//   kParts                               scales of a group: one, or one for each half
//   Quads<j>(group, row, first, second)  the codes of quads 2 j and 2 j + 1
//   LoadHeader(block, row)               what a block's groups share
//   Scale<part>(group, row, header)      the factor of the group's part (all of it, or a half)
//   Minimum<part>(group, row, header)    what is added to each weight; where kHasMinimum
// and the code that stands for zero is 1 << kZeroShift (kZeroShift < 0: 0).

// Two quads as one word of nibbles.
struct Nibbles {
  template <int kWord>
  [[gnu::always_inline]] static void Quads(const uint8_t* plane, int row, IVec& first,
                                           IVec& second) {
    const IVec word = LoadInts(PlaneWord(plane, kWord, row));
    first = AndInts(word, 0x0f0f0f0f);
    second = AndInts(ShiftInts<-4>(word), 0x0f0f0f0f);
  }
};

// Bits from a plane with kBits of them a code, moved to kShift.
template <int kBits, int kShift, int kQuad>
[[gnu::always_inline]] inline IVec PlaneBits(const uint8_t* plane, int row) {
  constexpr int kQuadsAWord = 8 / kBits;
  const IVec word = LoadInts(PlaneWord(plane, kQuad / kQuadsAWord, row));
  constexpr int kMask = ((1 << kBits) - 1) << kShift;
  return AndInts(ShiftInts<kShift - kBits*(kQuad % kQuadsAWord)>(word), kMask * 0x01010101);
}

struct NoHeader {};

// Binary16 factors behind the codes, and minima behind these.
template <int kScaleOffset>
struct HalfScales {
  using Header = NoHeader;
  [[gnu::always_inline]] static Header LoadHeader(const uint8_t*, int) { return {}; }
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header&) {
    return LoadF16(group + kScaleOffset + 2 * row);
  }
  template <int kPart>
  [[gnu::always_inline]] static Vec Minimum(const uint8_t* group, int row, const Header&) {
    return LoadF16(group + kScaleOffset + 2 * kPanelRows + 2 * row);
  }
};

struct PanelQ4_0 : HalfScales<512>, Nibbles {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 576;
  static constexpr int kZeroShift = 3, kParts = 1;
  static constexpr bool kHasMinimum = false;
};

struct PanelQ4_1 : HalfScales<512>, Nibbles {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 640;
  static constexpr int kZeroShift = -1, kParts = 1;
  static constexpr bool kHasMinimum = true;
};

struct FiveBits {
  template <int kWord>
  [[gnu::always_inline]] static void Quads(const uint8_t* group, int row, IVec& first,
                                           IVec& second) {
    Nibbles::Quads<kWord>(group, row, first, second);
    first = OrInts(first, PlaneBits<1, 4, 2 * kWord>(group + 512, row));
    second = OrInts(second, PlaneBits<1, 4, 2 * kWord + 1>(group + 512, row));
  }
};

struct PanelQ5_0 : HalfScales<640>, FiveBits {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 704;
  static constexpr int kZeroShift = 4, kParts = 1;
  static constexpr bool kHasMinimum = false;
};

struct PanelQ5_1 : HalfScales<640>, FiveBits {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 768;
  static constexpr int kZeroShift = -1, kParts = 1;
  static constexpr bool kHasMinimum = true;
};

struct PanelQ8_0 : HalfScales<1024> {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 1088;
  static constexpr int kZeroShift = 7, kParts = 1;
  static constexpr bool kHasMinimum = false;
  template <int kWord>
  [[gnu::always_inline]] static void Quads(const uint8_t* group, int row, IVec& first,
                                           IVec& second) {
    first = LoadInts(PlaneWord(group, 2 * kWord, row));
    second = LoadInts(PlaneWord(group, 2 * kWord + 1, row));
  }
};

// Nibbles that name a level. Levels are stored here as codes: value + (1 << kZeroShift).
alignas(16) constexpr uint8_t kIq4Codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                               129, 141, 153, 166, 181, 197, 217, 241};
// Twice the values of e2m1; the scale is halved in return.
alignas(16) constexpr uint8_t kFp4Codes[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                               16, 15, 14, 13, 12, 10, 8,  4};

template <const uint8_t (&kCodes)[16]>
struct Levels {
  template <int kWord>
  [[gnu::always_inline]] static void Quads(const uint8_t* group, int row, IVec& first,
                                           IVec& second) {
    const CodeTable table = LoadCodeTable(kCodes);
    Nibbles::Quads<kWord>(group, row, first, second);
    first = LookUpCodes(table, first);
    second = LookUpCodes(table, second);
  }
};

struct PanelIQ4_NL : HalfScales<512>, Levels<kIq4Codes> {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 576;
  static constexpr int kZeroShift = 7, kParts = 1;
  static constexpr bool kHasMinimum = false;
};

struct PanelMXFP4 : Levels<kFp4Codes> {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 544;
  static constexpr int kZeroShift = 4, kParts = 1;
  static constexpr bool kHasMinimum = false;
  using Header = NoHeader;
  [[gnu::always_inline]] static Header LoadHeader(const uint8_t*, int) { return {}; }
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header&) {
    return LoadHalvedE8M0(group + 512 + row);
  }
};

struct PanelNVFP4 : Levels<kFp4Codes> {
  static constexpr int kHeaderBytes = 0, kGroups = 1, kGroupBytes = 576;
  static constexpr int kZeroShift = 4, kParts = 2;
  static constexpr bool kHasMinimum = false;
  using Header = NoHeader;
  [[gnu::always_inline]] static Header LoadHeader(const uint8_t*, int) { return {}; }
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header&) {
    return LoadHalvedUE4M3(group + 512 + kPart * kPanelRows + row);
  }
};

// One binary16 number a row and block.
struct OneHeader {
  using Header = Vec;
  [[gnu::always_inline]] static Header LoadHeader(const uint8_t* block, int row) {
    return LoadF16(block + 2 * row);
  }
};

// Two: the factor of the scales and that of the minima.
struct FactorPair {
  Vec scale, minimum;
};
struct TwoHeaders {
  using Header = FactorPair;
  [[gnu::always_inline]] static Header LoadHeader(const uint8_t* block, int row) {
    return {LoadF16(block + 2 * row), LoadF16(block + 2 * kPanelRows + 2 * row)};
  }
};

struct PanelQ2_K : TwoHeaders {
  static constexpr int kHeaderBytes = 128, kGroups = 8, kGroupBytes = 320;
  static constexpr int kZeroShift = -1, kParts = 2;
  static constexpr bool kHasMinimum = true;
  template <int kWord>
  [[gnu::always_inline]] static void Quads(const uint8_t* group, int row, IVec& first,
                                           IVec& second) {
    first = PlaneBits<2, 0, 2 * kWord>(group, row);
    second = PlaneBits<2, 0, 2 * kWord + 1>(group, row);
  }
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header& header) {
    return Mul(header.scale, LoadLowNibbles(group + 256 + kPart * kPanelRows + row));
  }
  template <int kPart>
  [[gnu::always_inline]] static Vec Minimum(const uint8_t* group, int row, const Header& header) {
    return Negate(Mul(header.minimum, LoadHighNibbles(group + 256 + kPart * kPanelRows + row)));
  }
};

struct PanelQ3_K : OneHeader {
  static constexpr int kHeaderBytes = 64, kGroups = 8, kGroupBytes = 448;
  static constexpr int kZeroShift = 2, kParts = 2;
  static constexpr bool kHasMinimum = false;
  template <int kWord>
  [[gnu::always_inline]] static void Quads(const uint8_t* group, int row, IVec& first,
                                           IVec& second) {
    first = OrInts(PlaneBits<2, 0, 2 * kWord>(group, row),
                   PlaneBits<1, 2, 2 * kWord>(group + 256, row));
    second = OrInts(PlaneBits<2, 0, 2 * kWord + 1>(group, row),
                    PlaneBits<1, 2, 2 * kWord + 1>(group + 256, row));
  }
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header& header) {
    return Mul(header, LoadSignedBytes(group + 384 + kPart * kPanelRows + row));
  }
};

// The scales and minima of 6 bits that q4_k and q5_k share.
template <int kScaleOffset>
struct SixBitScales : TwoHeaders {
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header& header) {
    return Mul(header.scale, LoadSignedBytes(group + kScaleOffset + row));
  }
  template <int kPart>
  [[gnu::always_inline]] static Vec Minimum(const uint8_t* group, int row, const Header& header) {
    return Negate(Mul(header.minimum, LoadSignedBytes(group + kScaleOffset + kPanelRows + row)));
  }
};

struct PanelQ4_K : SixBitScales<512>, Nibbles {
  static constexpr int kHeaderBytes = 128, kGroups = 8, kGroupBytes = 576;
  static constexpr int kZeroShift = -1, kParts = 1;
  static constexpr bool kHasMinimum = true;
};

struct PanelQ5_K : SixBitScales<640>, FiveBits {
  static constexpr int kHeaderBytes = 128, kGroups = 8, kGroupBytes = 704;
  static constexpr int kZeroShift = -1, kParts = 1;
  static constexpr bool kHasMinimum = true;
};

struct PanelQ6_K : OneHeader {
  static constexpr int kHeaderBytes = 64, kGroups = 8, kGroupBytes = 832;
  static constexpr int kZeroShift = 5, kParts = 2;
  static constexpr bool kHasMinimum = false;
  template <int kWord>
  [[gnu::always_inline]] static void Quads(const uint8_t* group, int row, IVec& first,
                                           IVec& second) {
    Nibbles::Quads<kWord>(group, row, first, second);
    first = OrInts(first, PlaneBits<2, 4, 2 * kWord>(group + 512, row));
    second = OrInts(second, PlaneBits<2, 4, 2 * kWord + 1>(group + 512, row));
  }
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header& header) {
    return Mul(header, LoadSignedBytes(group + 768 + kPart * kPanelRows + row));
  }
};

struct PanelIQ4_XS : OneHeader, Levels<kIq4Codes> {
  static constexpr int kHeaderBytes = 64, kGroups = 8, kGroupBytes = 544;
  static constexpr int kZeroShift = 7, kParts = 1;
  static constexpr bool kHasMinimum = false;
  template <int kPart>
  [[gnu::always_inline]] static Vec Scale(const uint8_t* group, int row, const Header& header) {
    return Mul(header, LoadSignedBytes(group + 512 + row));
  }
};
