// kernels/cpu/generic/panel_rows.inl.h - what all products of panels share: asking for the next
// one, and the end of an element. Included inside an anonymous namespace, after loops.inl.h.

// The 32-bit word of a plane at a row.
[[gnu::always_inline]] inline const uint8_t* PlaneWord(const uint8_t* plane, int word, int row) {
  return plane + (word * kPanelRows + row) * 4;
}

// Brings kBytes to L2 and returns what follows them.
template <int32_t kBytes>
[[gnu::always_inline]] inline const uint8_t* AskFor(const uint8_t* p) {
  for (int32_t line = 0; line < kBytes; line += 64) PrefetchL2(p + line);
  return p + kBytes;
}

// Writes or adds the finished elements of a panel's rows for one token.
inline void FinishPanelRows(const PanelProductArgs& args, int32_t first_row, int32_t token,
                            const float* sums) {
  const int32_t n_rows = MinInt(kPanelRows, args.n_rows - first_row);
  const int32_t out_row = args.out_rows == nullptr ? token : args.out_rows[token];
  float* const out = args.out + static_cast<size_t>(out_row) * args.out_stride + first_row;
  ForEachVector(static_cast<size_t>(n_rows), [&](size_t i, int n) {
    Vec value = Load(sums + i);
    if (args.bias != nullptr) value = Add(value, LoadUpTo(args.bias + first_row + i, n));
    if (args.out_weight != nullptr)
      value = Fma(Set1(args.out_weight[token]), value, LoadUpTo(out + i, n));
    StoreUpTo(out + i, value, n);
  });
}
