// kernels/cpu/generic/float_matmul.inl.h - panels of float16 or float32 times float32 activations.
// Included inside an anonymous namespace, after panel_rows.inl.h and pair_*.inl.h.
//
// A lane is a row. An output element is one float32 sum, to which each column adds its product by
// one fused multiply-add, in order: neither the tile nor the neighbours show in it.

struct Float16Numbers {
  static constexpr int kBytes = 2;
  static Vec LoadRows(const uint8_t* p) { return LoadF16(p); }
};
struct Float32Numbers {
  static constexpr int kBytes = 4;
  static Vec LoadRows(const uint8_t* p) { return Load(p); }
};

// As many tokens as leave registers for the weights and one activation.
constexpr int kFloatTileVecs = 2;
constexpr int kFloatTileTokens = kLanes == 16 ? 12 : 6;

// Columns that take as many bytes as a group of bfloat16: its distances for asking early serve here
// as well.
template <typename Numbers>
constexpr int kFloatStepColumns = kBf16GroupBytes / (kPanelRows * Numbers::kBytes);

// One column of kFloatTileVecs vectors of rows for kTokens tokens.
template <typename Numbers, int kTokens>
[[gnu::always_inline]] inline void AddColumn(const uint8_t* column, const float* const* x,
                                             int32_t c, Vec (&total)[kFloatTileVecs][kTokens]) {
  Vec w[kFloatTileVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kFloatTileVecs; ++v) {
    w[v] = Numbers::LoadRows(column + v * kLanes * Numbers::kBytes);
    if (kTokens > 1) KeepInRegister(w[v]);
  }
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    const Vec xv = BroadcastFloat(x[t] + c);
#pragma GCC unroll 4
    for (int v = 0; v < kFloatTileVecs; ++v) total[v][t] = Fma(w[v], xv, total[v][t]);
  }
}

// kFloatTileVecs vectors of rows from `row` on, for kTokens tokens, over all k columns.
//   out  [kTokens][kPanelRows]
template <typename Numbers, int kTokens>
[[gnu::noinline]] void FloatTile(const uint8_t* panel, int row, int32_t k, Ahead ahead,
                                 const float* const* tokens, float* out) {
  constexpr int kVecs = kFloatTileVecs, kColumnBytes = kPanelRows * Numbers::kBytes;
  constexpr int kStep = kFloatStepColumns<Numbers>, kColumnsPerWord = kStep / kBf16GroupWords;
  Vec total[kVecs][kTokens];
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) total[v][t] = Zero();
  }
  const float* x[kTokens];
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) x[t] = tokens[t];
  const uint8_t* column = panel + row * Numbers::kBytes;
  int32_t c = 0;
  for (; c + kStep <= k; c += kStep) {
#pragma GCC unroll 4
    for (int word = 0; word < kBf16GroupWords; ++word) {
      ahead.Ask(word);
      PrefetchL1(column + kBf16NearBytes);
      PrefetchL1(column + kBf16NearBytes + 64);
#pragma GCC unroll 2
      for (int i = 0; i < kColumnsPerWord; ++i, column += kColumnBytes)
        AddColumn<Numbers, kTokens>(column, x, c + word * kColumnsPerWord + i, total);
    }
  }
  for (; c < k; ++c, column += kColumnBytes) AddColumn<Numbers, kTokens>(column, x, c, total);
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) Store(out + t * kPanelRows + row + v * kLanes, total[v][t]);
  }
}

// All rows of a panel for n tokens, 1 <= n <= kMost.
template <typename Numbers, int kMost>
[[gnu::always_inline]] inline void FloatTokens(int32_t n, const uint8_t* panel, int32_t k,
                                               Ahead ahead, const float* const* tokens,
                                               float* out) {
  if constexpr (kMost > 1) {
    if (n < kMost) return FloatTokens<Numbers, kMost - 1>(n, panel, k, ahead, tokens, out);
  }
  for (int row = 0; row < kPanelRows; row += kFloatTileVecs * kLanes) {
    FloatTile<Numbers, kMost>(panel, row, k, ahead, tokens, out);
    ahead.words = 0;
  }
}

template <typename Numbers>
void FloatMatMul(const FloatMatMulArgs& args) {
  const auto panel_bytes = static_cast<size_t>(args.k) * kPanelRows * Numbers::kBytes;
  // Tiles of about the same size, as of bfloat16.
  const int32_t n_tiles = (args.n_tokens + kFloatTileTokens - 1) / kFloatTileTokens;
  const int32_t n_steps = args.k / kFloatStepColumns<Numbers>;
  const uint8_t* panel = args.w;
  for (int32_t row = 0; row < args.n_rows; row += kPanelRows, panel += panel_bytes) {
    const uint8_t* const next = row + kPanelRows < args.n_rows ? panel + panel_bytes : args.next;
    int32_t t = 0;
    for (int32_t tile = 0; tile < n_tiles; ++tile) {
      const int32_t tiles_left = n_tiles - tile;
      const int32_t n = (args.n_tokens - t + tiles_left - 1) / tiles_left;
      const float* x[kFloatTileTokens] = {};
      for (int32_t i = 0; i < n; ++i) {
        const int32_t x_row = args.x_rows == nullptr ? t + i : args.x_rows[t + i];
        x[i] = args.x + static_cast<size_t>(x_row) * args.x_stride;
      }
      const Ahead ahead = ShareOfNext(next, n_steps, tile, n_tiles);
      alignas(64) float sums[kFloatTileTokens * kPanelRows];
      FloatTokens<Numbers, kFloatTileTokens>(n, panel, args.k, ahead, x, sums);
      for (int32_t i = 0; i < n; ++i) FinishPanelRows(args, row, t + i, sums + i * kPanelRows);
      t += n;
    }
  }
}

consteval void AddFloatEntries(KernelTable& table) {
  table.float_matmul[static_cast<size_t>(DType::kF16)] = FloatMatMul<Float16Numbers>;
  table.float_matmul[static_cast<size_t>(DType::kF32)] = FloatMatMul<Float32Numbers>;
}
