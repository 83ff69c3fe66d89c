// kernels/cpu/isa/panel_part_neondot.inl.h - the integer products of a panel's group where an
// instruction takes a quad of activations from any lane of a register: one load brings four quads.
// Included inside an anonymous namespace, after panel_formats.inl.h and dot_neondot.inl.h or
// dot_i8mm.inl.h; the same names as generic/panel_part.inl.h.

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
  const auto multiply_half = [&](auto half) __attribute__((always_inline)) {
    constexpr int kHalf = decltype(half)::value;
    IVec quads[kTokens];
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) quads[t] = LoadInts(x[t]->q + 16 * kHalf);
    const auto multiply_word = [&](auto word) __attribute__((always_inline)) {
      constexpr int kWord = decltype(word)::value;
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        IVec first, second;
        Format::template Quads<2 * kHalf + kWord>(group, row + v * kLanes, first, second);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t)
          sum[v][t] = DotLane<kBiased, 2 * kWord>(sum[v][t], first, quads[t]);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t)
          sum[v][t] = DotLane<kBiased, 2 * kWord + 1>(sum[v][t], second, quads[t]);
      }
    };
    ForEachIndex(std::integer_sequence<int, 0, 1>(), multiply_word);
  };
  if constexpr (Format::kParts == 1) {
    ForEachIndex(std::integer_sequence<int, 0, 1>(), multiply_half);
  } else {
    ForEachIndex(std::integer_sequence<int, kPart>(), multiply_half);
  }
}
