// kernels/cpu/generic/panel_rows.inl.h - what products of panels share: asking for the next one,
// and the end of an element. Included inside an anonymous namespace, after loops.inl.h.

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

constexpr int kBf16GroupWords = kGroupColumns / 2;
constexpr int32_t kBf16GroupBytes = kBf16GroupWords * 4 * kPanelRows;

// How far ahead lines are brought from L2 to L1.
constexpr int kBf16NearBytes = 4096;

// A tile's share of what will be read next: two lines with each of the first `words` words of a
// group of columns, so that the memory is at work during all tiles of a panel alike.
struct Ahead {
  const uint8_t* at;
  int32_t words;  // 0: nothing is left to ask for

  [[gnu::always_inline]] void Ask(int word) {
    if (word >= words) return;
    PrefetchL2(at);
    PrefetchL2(at + 64);
    at += 128;
  }
};

// The share of the first tile of a panel, the second, ...: `next` is a bfloat16 panel or null.
inline Ahead ShareOfNext(const uint8_t* next, int32_t n_groups, int32_t tile, int32_t n_tiles) {
  const int32_t share = n_tiles < kBf16GroupWords ? (kBf16GroupWords + n_tiles - 1) / n_tiles : 1;
  const int32_t asked = tile * share;
  if (next == nullptr || asked >= kBf16GroupWords) return {next, 0};
  return {next + static_cast<size_t>(asked) * 128 * static_cast<size_t>(n_groups),
          MinInt(share, kBf16GroupWords - asked)};
}

[[gnu::always_inline]] inline void StoreInts(void* p, IVec v) {
  std::memcpy(p, &v, sizeof(v));
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
