// kernels/cpu/generic/bf16_matmul.inl.h - panels of bfloat16 times bfloat16 activations.
// Included inside an anonymous namespace, after panel_rows.inl.h and pair_*.inl.h.
//
// A lane is a row. An output element is one float32 sum, to which AddPair adds two columns at a
// time, in order: neither the tile nor the neighbours show in it.

// kBf16TileVecs vectors of rows from `row` on, for kTokens tokens, over all columns.
//   out  [kTokens][kPanelRows]
template <int kTokens>
[[gnu::noinline]] void Bf16Tile(const uint8_t* panel, int row, int32_t n_groups, Ahead ahead,
                                const uint16_t* const* tokens, float* out) {
  constexpr int kVecs = kBf16TileVecs;
  Vec total[kVecs][kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) total[v][t] = Zero();
  }
  const uint16_t* x[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) x[t] = tokens[t];
  const uint8_t* group = panel;
  for (int32_t g = 0; g < n_groups; ++g, group += kBf16GroupBytes) {
    const int32_t column = g * kGroupColumns;
#pragma GCC unroll 16
    for (int word = 0; word < kBf16GroupWords; ++word) {
      ahead.Ask(word);
      PrefetchL1(group + kBf16NearBytes + 128 * word);
      PrefetchL1(group + kBf16NearBytes + 128 * word + 64);
      Pair w[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        w[v] = ToPair(LoadInts(PlaneWord(group, word, row + v * kLanes)));
      }
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const Pair xw = ToPair(BroadcastInt(x[t] + column + 2 * word));
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) total[v][t] = AddPair(total[v][t], w[v], xw);
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) Store(out + t * kPanelRows + row + v * kLanes, total[v][t]);
  }
}

// All rows of a panel for n tokens, 1 <= n <= kMost.
template <int kMost>
[[gnu::always_inline]] inline void Bf16Tokens(int32_t n, const uint8_t* panel, int32_t n_groups,
                                              Ahead ahead, const uint16_t* const* tokens,
                                              float* out) {
  if constexpr (kMost > 1) {
    if (n < kMost) return Bf16Tokens<kMost - 1>(n, panel, n_groups, ahead, tokens, out);
  }
  for (int row = 0; row < kPanelRows; row += kBf16TileVecs * kLanes) {
    Bf16Tile<kMost>(panel, row, n_groups, ahead, tokens, out);
    ahead.words = 0;
  }
}

void Bf16MatMul(const Bf16MatMulArgs& args) {
  const int32_t n_groups = (args.k + kGroupColumns - 1) / kGroupColumns;
  const size_t panel_bytes = static_cast<size_t>(n_groups) * kBf16GroupBytes;
  // Tiles of about the same size: 9 tokens are 5 and 4, which takes less than 8 and 1.
  const int32_t n_tiles = (args.n_tokens + kBf16TileTokens - 1) / kBf16TileTokens;
  const uint8_t* panel = args.w;
  for (int32_t row = 0; row < args.n_rows; row += kPanelRows, panel += panel_bytes) {
    const uint8_t* const next = row + kPanelRows < args.n_rows ? panel + panel_bytes : args.next;
    int32_t t = 0;
    for (int32_t tile = 0; tile < n_tiles; ++tile) {
      const int32_t tiles_left = n_tiles - tile;
      const int32_t n = (args.n_tokens - t + tiles_left - 1) / tiles_left;
      const uint16_t* x[kBf16TileTokens] = {};
      for (int32_t i = 0; i < n; ++i) {
        const int32_t x_row = args.x_rows == nullptr ? t + i : args.x_rows[t + i];
        x[i] = args.x + static_cast<size_t>(x_row) * args.x_stride;
      }
      const Ahead ahead = ShareOfNext(next, n_groups, tile, n_tiles);
      alignas(64) float sums[kBf16TileTokens * kPanelRows];
      Bf16Tokens<kBf16TileTokens>(n, panel, n_groups, ahead, x, sums);
      for (int32_t i = 0; i < n; ++i) FinishPanelRows(args, row, t + i, sums + i * kPanelRows);
      t += n;
    }
  }
}

consteval void AddBf16Entries(KernelTable& table) {
  table.bf16_matmul[static_cast<size_t>(DType::kBF16)] = Bf16MatMul;
}
