// kernels/cpu/generic/tile_panel_matmul.inl.h - panels of quantised weights times 8-bit activations
// by tiles, for many tokens. Included inside an anonymous namespace, after panel_formats.inl.h and
// tiles_*.inl.h; kFewTokens is the table for fewer.
//
// The codes of a group, less their zero, become signed bytes: two tiles for a panel's rows. A
// product of tiles gives the exact integer sums over 32 (or 16) columns; what becomes of these is,
// operation by operation, what panel_matmul.inl.h does. So an element has the same bits whether
// tiles or vectors made it, and few tokens can be left to vectors.

// One group of a block's tokens side by side: rows of a long k lie on few sets of the cache, so
// that each line is touched once.
struct TokenGroup {
  alignas(64) int8_t q[kBlockTokens * kGroupColumns];
  float scale[kBlockTokens];
  float sum[2][kBlockTokens];  // scaled, of each part
};

template <int kParts, bool kHasMinimum>
void GatherGroup(const ActivationGroup* const* tokens, int32_t n_tokens, int32_t g,
                 TokenGroup& out) {
  for (int32_t t = 0; t < n_tokens; ++t) {
    const ActivationGroup& x = tokens[t][g];
    std::memcpy(out.q + t * kGroupColumns, x.q, kGroupColumns);
    out.scale[t] = x.scale;
    if constexpr (kHasMinimum) {
      out.sum[0][t] = kParts == 1 ? x.scaled_sum : x.scaled_half_sum[0];
      out.sum[1][t] = x.scaled_half_sum[1];
    }
  }
}

// Every byte less `zero`.
inline IVec LessZero(IVec codes, uint8_t zero) {
  typedef uint8_t Bytes __attribute__((vector_size(sizeof(IVec))));
  Bytes bytes;
  std::memcpy(&bytes, &codes, sizeof(bytes));
  bytes = bytes - zero;
  std::memcpy(&codes, &bytes, sizeof(bytes));
  return codes;
}

// The codes of a group as signed bytes, [half of the rows][quad][16 rows].
template <typename Format>
void DecodeGroup(const uint8_t* group, int8_t* out) {
  constexpr uint8_t kZero = Format::kZeroShift < 0 ? 0 : 1 << (Format::kZeroShift & 7);
  constexpr int kQuads = kGroupColumns / 4;
  for (int row = 0; row < kPanelRows; row += kLanes) {
    const auto decode_word = [&](auto word) __attribute__((always_inline)) {
      constexpr int kWord = decltype(word)::value;
      IVec quad[2];
      Format::template Quads<kWord>(group, row, quad[0], quad[1]);
      for (int i = 0; i < 2; ++i) {
        StoreInts(out + (row / kTileSide * kQuads + 2 * kWord + i) * 64 + row % kTileSide * 4,
                  LessZero(quad[i], kZero));
      }
    };
    ForEachIndex(std::integer_sequence<int, 0, 1, 2, 3>(), decode_word);
  }
}

// The integer sums of a group's part: [kTokenTiles * 16][kPanelRows].
template <int kParts, int kPart, int kTokenTiles>
[[gnu::always_inline]] inline void MultiplyTiles(Tiles& tiles, const TokenGroup& x,
                                                 const int8_t* codes, int32_t* sums) {
  constexpr int kPartColumns = kGroupColumns / kParts;
  const auto load_rows = [&](auto rows) __attribute__((always_inline)) {
    constexpr int kRows = decltype(rows)::value;
    const int quad = kRows * (kGroupColumns / 4) + kPart * (kPartColumns / 4);
    tiles.Load<WeightTile(kRows)>(codes + quad * 64, 64);
  };
  ForEachIndex(std::integer_sequence<int, 0, 1>(), load_rows);
  const auto multiply = [&](auto tokens) __attribute__((always_inline)) {
    constexpr int kTokens = decltype(tokens)::value;
    tiles.Load<TokenTile(kTokens)>(x.q + kTokens * kTileSide * kGroupColumns + kPart * kPartColumns,
                                   kGroupColumns);
    const auto multiply_rows = [&](auto rows) __attribute__((always_inline)) {
      constexpr int kRows = decltype(rows)::value, kSum = SumTile(kTokens, kRows);
      tiles.Zero<kSum>();
      tiles.AddInt8<kSum, TokenTile(kTokens), WeightTile(kRows)>();
      tiles.Store<kSum>(sums + kTokens * kTileSide * kPanelRows + kRows * kTileSide,
                        kPanelRows * static_cast<int64_t>(sizeof(int32_t)));
    };
    ForEachIndex(std::integer_sequence<int, 0, 1>(), multiply_rows);
  };
  ForEachIndex(std::make_integer_sequence<int, kTokenTiles>(), multiply);
}

// A panel with a block of n_tokens, for which the tiles are configured.
//   totals  [n_tokens][kPanelRows]
template <typename Format, int kTokenTiles>
void TilePanelBlock(Tiles& tiles, const uint8_t* panel, int32_t n_blocks, const uint8_t* next,
                    const ActivationGroup* const* tokens, int32_t n_tokens, float* totals) {
  alignas(64) int8_t codes[kPanelRows * kGroupColumns];
  alignas(64) int32_t sums[kTokenTiles * kTileSide * kPanelRows];
  TokenGroup x;
  for (int32_t i = 0; i < n_tokens * kPanelRows; i += kLanes) Store(totals + i, Zero());
  const uint8_t* group = panel;
  int32_t index = 0;
  for (int32_t b = 0; b < n_blocks; ++b) {
    const uint8_t* const block = group;
    group += Format::kHeaderBytes;
    if (next != nullptr) next = AskFor<Format::kHeaderBytes>(next);
    for (int32_t g = 0; g < Format::kGroups; ++g, ++index, group += Format::kGroupBytes) {
      if (next != nullptr) next = AskFor<Format::kGroupBytes>(next);
      DecodeGroup<Format>(group, codes);
      GatherGroup<Format::kParts, Format::kHasMinimum>(tokens, n_tokens, index, x);
      const auto part = [&](auto number) __attribute__((always_inline)) {
        constexpr int kPart = decltype(number)::value;
        MultiplyTiles<Format::kParts, kPart, kTokenTiles>(tiles, x, codes, sums);
        for (int row = 0; row < kPanelRows; row += kLanes) {
          const auto header = Format::LoadHeader(block, row);
          const Vec scale = Format::template Scale<kPart>(group, row, header);
          Vec minimum = Zero();
          if constexpr (Format::kHasMinimum)
            minimum = Format::template Minimum<kPart>(group, row, header);
          for (int32_t t = 0; t < n_tokens; ++t) {
            const int32_t at = t * kPanelRows + row;
            Vec total = Fma(ToFloats(LoadInts(sums + at)), Mul(scale, Broadcast(x.scale[t])),
                            Load(totals + at));
            if constexpr (Format::kHasMinimum)
              total = Fma(minimum, Broadcast(x.sum[kPart][t]), total);
            Store(totals + at, total);
          }
        }
      };
      ForEachIndex(std::make_integer_sequence<int, Format::kParts>(), part);
    }
  }
}

// The panel that begins at `row` with the tokens from `first` on, by the table for few.
template <DType kType>
void MultiplyFew(const PanelMatMulArgs& args, const uint8_t* panel, int32_t row, int32_t first) {
  PanelMatMulArgs rest = args;
  rest.w = panel;
  rest.n_rows = MinInt(kPanelRows, args.n_rows - row);
  rest.n_tokens = args.n_tokens - first;
  if (args.x_rows == nullptr) {
    rest.x += static_cast<size_t>(first) * args.x_stride;
  } else {
    rest.x_rows += first;
  }
  rest.out += row;
  if (args.out_rows == nullptr) {
    rest.out += static_cast<size_t>(first) * args.out_stride;
  } else {
    rest.out_rows += first;
  }
  if (args.bias != nullptr) rest.bias += row;
  if (args.out_weight != nullptr) rest.out_weight += first;
  rest.next = nullptr;
  kFewTokens.panel_matmul[static_cast<size_t>(kType)](rest);
}

template <typename Format, DType kType>
void TilePanelMatMul(const PanelMatMulArgs& args) {
  if (args.n_tokens < kFewestTileTokens) {
    kFewTokens.panel_matmul[static_cast<size_t>(kType)](args);
    return;
  }
  const int32_t n_blocks = args.k / (Format::kGroups * kGroupColumns);
  constexpr int kBlockBytes = Format::kHeaderBytes + Format::kGroups * Format::kGroupBytes;
  const size_t panel_bytes = static_cast<size_t>(n_blocks) * kBlockBytes;
  const uint8_t* panel = args.w;
  Tiles tiles;
  int32_t configured = 0;
  for (int32_t row = 0; row < args.n_rows; row += kPanelRows, panel += panel_bytes) {
    const uint8_t* next = row + kPanelRows < args.n_rows ? panel + panel_bytes : args.next;
    for (int32_t first = 0; first < args.n_tokens; first += kBlockTokens) {
      const int32_t n = MinInt(kBlockTokens, args.n_tokens - first);
      if (n < kFewestTileTokens) {
        MultiplyFew<kType>(args, panel, row, first);
        break;
      }
      if (n != configured) {
        tiles.Configure(BlockShapes(n, kGroupColumns / Format::kParts));
        configured = n;
      }
      const ActivationGroup* x[kBlockTokens] = {};
      for (int32_t t = 0; t < n; ++t) {
        const int32_t x_row = args.x_rows == nullptr ? first + t : args.x_rows[first + t];
        x[t] = args.x + static_cast<size_t>(x_row) * args.x_stride;
      }
      alignas(64) float totals[kBlockTokens * kPanelRows];
      if (n > kTileSide) {
        TilePanelBlock<Format, 2>(tiles, panel, n_blocks, next, x, n, totals);
      } else {
        TilePanelBlock<Format, 1>(tiles, panel, n_blocks, next, x, n, totals);
      }
      for (int32_t t = 0; t < n; ++t)
        FinishPanelRows(args, row, first + t, totals + t * kPanelRows);
      next = nullptr;  // asked for once
    }
  }
}

consteval void AddTilePanelEntries(KernelTable& table) {
  const auto set = [&table](DType dtype, KernelTable::PanelMatMulFn matmul) {
    table.panel_matmul[static_cast<size_t>(dtype)] = matmul;
  };
  set(DType::kQ4_0, TilePanelMatMul<PanelQ4_0, DType::kQ4_0>);
  set(DType::kQ4_1, TilePanelMatMul<PanelQ4_1, DType::kQ4_1>);
  set(DType::kQ5_0, TilePanelMatMul<PanelQ5_0, DType::kQ5_0>);
  set(DType::kQ5_1, TilePanelMatMul<PanelQ5_1, DType::kQ5_1>);
  set(DType::kQ8_0, TilePanelMatMul<PanelQ8_0, DType::kQ8_0>);
  set(DType::kQ2_K, TilePanelMatMul<PanelQ2_K, DType::kQ2_K>);
  set(DType::kQ3_K, TilePanelMatMul<PanelQ3_K, DType::kQ3_K>);
  set(DType::kQ4_K, TilePanelMatMul<PanelQ4_K, DType::kQ4_K>);
  set(DType::kQ5_K, TilePanelMatMul<PanelQ5_K, DType::kQ5_K>);
  set(DType::kQ6_K, TilePanelMatMul<PanelQ6_K, DType::kQ6_K>);
  set(DType::kIQ4_NL, TilePanelMatMul<PanelIQ4_NL, DType::kIQ4_NL>);
  set(DType::kIQ4_XS, TilePanelMatMul<PanelIQ4_XS, DType::kIQ4_XS>);
  set(DType::kMXFP4, TilePanelMatMul<PanelMXFP4, DType::kMXFP4>);
  set(DType::kNVFP4, TilePanelMatMul<PanelNVFP4, DType::kNVFP4>);
}
