// kernels/cpu/generic/tile_bf16_matmul.inl.h - panels of bfloat16 times bfloat16 activations by
// tiles, for every number of tokens. Included inside an anonymous namespace, after panel_rows.inl.h
// and tiles_*.inl.h.
//
// A group of a panel is two tiles, rows 0-15 and 16-31, whose lines alternate in memory. An output
// element is one float32 sum that stays in a tile: one product of tiles adds 32 columns to it,
// group by group. Which roundings a product takes is the instruction's own, and it is not what
// AddPair does: by Intel's manual the even columns and the odd ones are two chains of fused
// multiply-adds from zero, whose sum is then added to the element. So vectors cannot make the same
// bits, and one token goes through tiles as many do. An element of a product depends on its row and
// its column alone.

// The activations of up to 16 tokens.
struct TokenRows {
  const uint16_t* row[kTileSide];
  int32_t n;
  int64_t stride;  // bytes from row to row; 0: they lie anywhere
};

// The tokens from `first` on.
inline TokenRows FindTokenRows(const Bf16MatMulArgs& args, int32_t first, int32_t n) {
  TokenRows out = {};
  out.n = n;
  for (int32_t t = 0; t < n; ++t) {
    const int32_t x_row = args.x_rows == nullptr ? first + t : args.x_rows[first + t];
    out.row[t] = args.x + static_cast<size_t>(x_row) * args.x_stride;
  }
  if (args.x_rows == nullptr) out.stride = static_cast<int64_t>(args.x_stride * sizeof(uint16_t));
  return out;
}

template <int kTile>
[[gnu::always_inline]] inline void LoadTokenRows(Tiles& tiles, const TokenRows& rows,
                                                 int32_t column) {
  if (rows.stride != 0) {
    tiles.Load<kTile>(rows.row[0] + column, rows.stride);
    return;
  }
  alignas(64) uint16_t side_by_side[kTileSide * kGroupColumns];
  for (int32_t t = 0; t < rows.n; ++t) {
    std::memcpy(side_by_side + t * kGroupColumns, rows.row[t] + column,
                kGroupColumns * sizeof(uint16_t));
  }
  tiles.Load<kTile>(side_by_side, kGroupColumns * static_cast<int64_t>(sizeof(uint16_t)));
}

// A panel with a block of tokens, for which the tiles are configured.
//   out  [kTokenTiles * 16][kPanelRows]
template <int kTokenTiles>
[[gnu::noinline]] void TileBf16Block(Tiles& tiles, const uint8_t* panel, int32_t n_groups,
                                     Ahead ahead, const TokenRows (&tokens)[2], float* out) {
  // A number for each tile of sums: tokens, then rows.
  constexpr auto kSums = std::make_integer_sequence<int, 2 * kTokenTiles>();
  const auto clear = [&](auto sum) __attribute__((always_inline)) {
    constexpr int kSum = decltype(sum)::value;
    tiles.Zero<SumTile(kSum / 2, kSum % 2)>();
  };
  ForEachIndex(kSums, clear);
  constexpr int64_t kWordBytes = 4 * kPanelRows;
  const uint8_t* group = panel;
  for (int32_t g = 0; g < n_groups; ++g, group += kBf16GroupBytes) {
    for (int word = 0; word < ahead.words; ++word) ahead.Ask(word);
    const uint8_t* const near = group + kBf16NearBytes;
#pragma GCC unroll 1
    for (int line = 0; line < kBf16GroupBytes; line += 4 * 64) {
      for (int i = 0; i < 4; ++i) PrefetchL1(near + line + 64 * i);
    }
    tiles.Load<WeightTile(0)>(group, kWordBytes);
    tiles.Load<WeightTile(1)>(group + kWordBytes / 2, kWordBytes);
    const auto load = [&](auto half) __attribute__((always_inline)) {
      constexpr int kHalf = decltype(half)::value;
      LoadTokenRows<TokenTile(kHalf)>(tiles, tokens[kHalf], g * kGroupColumns);
    };
    ForEachIndex(std::make_integer_sequence<int, kTokenTiles>(), load);
    const auto multiply = [&](auto sum) __attribute__((always_inline)) {
      constexpr int kTokens = decltype(sum)::value / 2, kRows = decltype(sum)::value % 2;
      tiles.AddBf16<SumTile(kTokens, kRows), TokenTile(kTokens), WeightTile(kRows)>();
    };
    ForEachIndex(kSums, multiply);
  }
  const auto store = [&](auto sum) __attribute__((always_inline)) {
    constexpr int kTokens = decltype(sum)::value / 2, kRows = decltype(sum)::value % 2;
    tiles.Store<SumTile(kTokens, kRows)>(out + kTokens * kTileSide * kPanelRows + kRows * kTileSide,
                                         kPanelRows * static_cast<int64_t>(sizeof(float)));
  };
  ForEachIndex(kSums, store);
}

void TileBf16MatMul(const Bf16MatMulArgs& args) {
  const int32_t n_groups = (args.k + kGroupColumns - 1) / kGroupColumns;
  const size_t panel_bytes = static_cast<size_t>(n_groups) * kBf16GroupBytes;
  const int32_t n_blocks = (args.n_tokens + kBlockTokens - 1) / kBlockTokens;
  const uint8_t* panel = args.w;
  Tiles tiles;
  int32_t configured = 0;
  for (int32_t row = 0; row < args.n_rows; row += kPanelRows, panel += panel_bytes) {
    const uint8_t* const next = row + kPanelRows < args.n_rows ? panel + panel_bytes : args.next;
    for (int32_t block = 0; block < n_blocks; ++block) {
      const int32_t first = block * kBlockTokens;
      const int32_t n = MinInt(kBlockTokens, args.n_tokens - first);
      if (n != configured) {
        tiles.Configure(BlockShapes(n, kGroupColumns * static_cast<int32_t>(sizeof(uint16_t))));
        configured = n;
      }
      const int32_t n_first = MinInt(n, kTileSide);
      const TokenRows tokens[2] = {FindTokenRows(args, first, n_first),
                                   FindTokenRows(args, first + n_first, n - n_first)};
      const Ahead ahead = ShareOfNext(next, n_groups, block, n_blocks);
      alignas(64) float sums[kBlockTokens * kPanelRows];
      if (n > kTileSide) {
        TileBf16Block<2>(tiles, panel, n_groups, ahead, tokens, sums);
      } else {
        TileBf16Block<1>(tiles, panel, n_groups, ahead, tokens, sums);
      }
      for (int32_t t = 0; t < n; ++t) FinishPanelRows(args, row, first + t, sums + t * kPanelRows);
    }
  }
}

consteval void AddTileBf16Entries(KernelTable& table) {
  table.bf16_matmul[static_cast<size_t>(DType::kBF16)] = TileBf16MatMul;
}
