// kernels/cpu/generic/pair_fma.inl.h - products of pairs of bfloat16 by float32 multiply-adds, for
// sets without instructions for them. Included inside an anonymous namespace, after the instruction
// set's integers.

// Where a tile's sums fit the registers.
constexpr int kBf16TileVecs = 2;
constexpr int kBf16TileTokens = kLanes == 16 ? 8 : kPanelTileTokens;

// The bits as they are.
inline Vec AsFloats(IVec v) {
  static_assert(sizeof(Vec) == sizeof(IVec));
  Vec out;
  std::memcpy(&out, &v, sizeof(out));
  return out;
}

// Two columns in each lane.
struct Pair {
  Vec even, odd;
};
[[gnu::always_inline]] inline Pair ToPair(IVec words) {
  return {AsFloats(ShiftInts<16>(words)), AsFloats(AndInts(words, static_cast<int>(0xffff0000u)))};
}
// sum + w x for the odd columns, then for the even ones.
[[gnu::always_inline]] inline Vec AddPair(Vec sum, const Pair& w, const Pair& x) {
  return Fma(w.even, x.even, Fma(w.odd, x.odd, sum));
}
