// kernels/cpu/generic/panel_part.inl.h - the integer products of a panel's group, each quad of
// activations repeated for all rows. Included inside an anonymous namespace, after
// panel_formats.inl.h and the instruction set's dot_*.inl.h.

// The integer products of a group's part.
template <typename Format, int kVecs, int kTokens, int kPart>
[[gnu::always_inline]] inline void MultiplyPart(const uint8_t* group, int row,
                                                const ActivationGroup* const (&x)[kTokens],
                                                IVec (&sum)[kVecs][kTokens]) {
  constexpr int kZeroShift = Format::kZeroShift;
  constexpr bool kBiased = kZeroShift == 7 && !kHasUnsignedDot;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    IVec start = ZeroInts();
    if constexpr (kZeroShift >= 0 && !kBiased) {
      start = ShiftInts<kZeroShift>(BroadcastInt(
          Format::kParts == 1 ? &x[t]->negative_sum : &x[t]->negative_half_sum[kPart]));
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) sum[v][t] = start;
  }
  const auto multiply_word = [&](auto word) __attribute__((always_inline)) {
    constexpr int kWord = decltype(word)::value;
    IVec code[kVecs][2];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v)
      Format::template Quads<kWord>(group, row + v * kLanes, code[v][0], code[v][1]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const IVec xq = BroadcastInt(x[t]->q + 4 * (2 * kWord + i));
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v)
          if constexpr (kBiased) {
            sum[v][t] = DotBiased(sum[v][t], code[v][i], xq);
          } else {
            sum[v][t] = Dot<(kZeroShift < 7)>(sum[v][t], code[v][i], xq);
          }
      }
    }
  };
  if constexpr (Format::kParts == 1) {
    ForEachIndex(std::integer_sequence<int, 0, 1, 2, 3>(), multiply_word);
  } else {
    ForEachIndex(std::integer_sequence<int, 2 * kPart, 2 * kPart + 1>(), multiply_word);
  }
}
