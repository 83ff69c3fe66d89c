// kernels/cpu/generic/matmul.inl.h - rows of weights times rows of activations.
// Included inside an anonymous namespace, after the instruction set's vectors.
//
// An output element is one vector of sums: product c goes to lane c % kLanes, in order of c, one
// fused multiply-add each; the end adds the lanes in ReduceSum8's order. All paths below keep to
// that, so an element's bits never depend on the path, the tile or the neighbours.

constexpr int kGroupRows = kMatMulScratchRows;
static_assert(kGroupRows == 8, "ReduceSum8 ends a group of rows");

// Columns that a tile takes at a time: the group's rows of it and a tile's tokens stay in L1.
constexpr int32_t kColumnChunk = 512;
static_assert(kColumnChunk % kLanes == 0);
// Tokens whose sums are open at a time.
constexpr int32_t kTokenBlock = kMatMulTokenBlock;
static_assert(kTokenBlock % kTileTokens == 0 && kLanes <= kMatMulMaxLanes);
// From this many tokens on, float32 rows are copied side by side: far apart they may fall on the
// same few sets of the cache.
constexpr int32_t kCopyTokens = 12;

inline int32_t MinInt(int32_t a, int32_t b) {
  return a < b ? a : b;
}

// kRows x kTokens elements over n columns.
//   w     the first row; the next ones w_stride bytes apart
//   x     each token's row
//   sums  a vector for each element, [token][kGroupRows]; begun at zero when `first`, else
//   continued
template <int kRows, int kTokens>
void Tile(const uint8_t* w, size_t w_stride, const float* const* x, int32_t n, bool first,
          float* sums) {
  Vec sum[kRows][kTokens];
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      sum[r][t] = first ? Zero() : Load(sums + (t * kGroupRows + r) * kLanes);
    }
  }
  const uint8_t* row[kRows];
  for (int r = 0; r < kRows; ++r) row[r] = w + static_cast<size_t>(r) * w_stride;
  const float* token[kTokens];
  for (int t = 0; t < kTokens; ++t) token[t] = x[t];
  int32_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    Vec xv[kTokens];
    for (int t = 0; t < kTokens; ++t) xv[t] = Load(token[t] + c);
    for (int r = 0; r < kRows; ++r) {
      const Vec wv = Load(row[r] + static_cast<size_t>(c) * sizeof(float));
      for (int t = 0; t < kTokens; ++t) sum[r][t] = Fma(wv, xv[t], sum[r][t]);
    }
  }
  if (c < n) {
    Vec xv[kTokens];
    for (int t = 0; t < kTokens; ++t) xv[t] = LoadN(token[t] + c, n - c);
    for (int r = 0; r < kRows; ++r) {
      const Vec wv = LoadN(row[r] + static_cast<size_t>(c) * sizeof(float), n - c);
      for (int t = 0; t < kTokens; ++t) sum[r][t] = Fma(wv, xv[t], sum[r][t]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) Store(sums + (t * kGroupRows + r) * kLanes, sum[r][t]);
  }
}

// Up to kGroupRows rows of decoded weights.
struct RowGroup {
  const uint8_t* w;
  size_t stride;  // bytes
  int32_t n_rows;
};

// A tile's tokens with all rows of a group, over n columns from column c on.
template <int kTokens>
void TileRows(const RowGroup& group, const float* const* x, int32_t c, int32_t n, float* sums) {
  const uint8_t* const w = group.w + static_cast<size_t>(c) * sizeof(float);
  int32_t r = 0;
  for (; r + kTileRows <= group.n_rows; r += kTileRows) {
    Tile<kTileRows, kTokens>(w + static_cast<size_t>(r) * group.stride, group.stride, x, n, c == 0,
                             sums + r * kLanes);
  }
  if constexpr (kTileRows >= 4) {
    for (; r + kTileRows / 2 <= group.n_rows; r += kTileRows / 2) {
      Tile<kTileRows / 2, kTokens>(w + static_cast<size_t>(r) * group.stride, group.stride, x, n,
                                   c == 0, sums + r * kLanes);
    }
  }
  for (; r < group.n_rows; ++r) {
    Tile<1, kTokens>(w + static_cast<size_t>(r) * group.stride, group.stride, x, n, c == 0,
                     sums + r * kLanes);
  }
}

// Ends the elements of a group of rows and a block of tokens.
inline void WriteSums(const MatMulArgs& args, int32_t row, int32_t n_rows, int32_t token,
                      int32_t n_tokens, const float* sums) {
  for (int32_t t = 0; t < n_tokens; ++t) {
    float* const out = args.out + static_cast<size_t>(token + t) * args.out_stride + row;
    const float* const mine = sums + static_cast<size_t>(t) * kGroupRows * kLanes;
    if (n_rows == kGroupRows) {
      ReduceSum8(mine, out);
    } else {
      float lanes[kGroupRows];
      ReduceSum8(mine, lanes);
      for (int32_t r = 0; r < n_rows; ++r) out[r] = lanes[r];
    }
  }
}

inline const float* TokenRow(const MatMulArgs& args, int32_t token) {
  const int32_t row = args.x_rows == nullptr ? token : args.x_rows[token];
  return args.x + static_cast<size_t>(row) * args.x_stride;
}

// A group of rows with every token.
inline void MultiplyGroup(const MatMulArgs& args, const RowGroup& group, int32_t row, float* sums) {
  for (int32_t token = 0; token < args.n_tokens; token += kTokenBlock) {
    const int32_t n_tokens = MinInt(kTokenBlock, args.n_tokens - token);
    // With few tokens nothing is used twice, and a chunk would only interrupt the stream.
    const int32_t chunk = n_tokens <= kTileTokens ? args.k : kColumnChunk;
    int32_t c = 0;
    do {
      const int32_t n = MinInt(chunk, args.k - c);
      for (int32_t t = 0; t < n_tokens; t += kTileTokens) {
        const int32_t n_tile = MinInt(kTileTokens, n_tokens - t);
        const float* x[kTileTokens] = {};
        for (int32_t i = 0; i < n_tile; ++i) x[i] = TokenRow(args, token + t + i) + c;
        float* const mine = sums + static_cast<size_t>(t) * kGroupRows * kLanes;
        if (n_tile == 1) {
          TileRows<1>(group, x, c, n, mine);
        } else if (n_tile == 2) {
          TileRows<2>(group, x, c, n, mine);
        } else {
          TileRows<kTileTokens>(group, x, c, n, mine);
        }
      }
      c += n;
    } while (c < args.k);
    WriteSums(args, row, group.n_rows, token, n_tokens, sums);
  }
}

// The matmul of every type: `decode` makes float32 of a row; null where rows are float32 already.
inline void MatMulDecoded(const MatMulArgs& args, KernelTable::DecodeFn decode) {
  const size_t padded_k = (static_cast<size_t>(args.k) + 15) / 16 * 16;
  float sums_of_few[kGroupRows * kLanes * kTileTokens];
  float* const sums = args.n_tokens <= kTileTokens
                          ? sums_of_few
                          : args.scratch + static_cast<size_t>(kGroupRows) * padded_k;
  const auto* const w = static_cast<const uint8_t*>(args.w);
  const bool in_place = decode == nullptr && args.n_tokens < kCopyTokens;
  for (int32_t row = 0; row < args.n_rows; row += kGroupRows) {
    const int32_t n_rows = MinInt(kGroupRows, args.n_rows - row);
    const uint8_t* const first = w + static_cast<size_t>(row) * args.w_row_bytes;
    if (in_place) {
      MultiplyGroup(args, {first, args.w_row_bytes, n_rows}, row, sums);
      continue;
    }
    for (int32_t r = 0; r < n_rows; ++r) {
      const uint8_t* const src = first + static_cast<size_t>(r) * args.w_row_bytes;
      float* const dst = args.scratch + static_cast<size_t>(r) * padded_k;
      if (decode == nullptr) {
        std::memcpy(dst, src, static_cast<size_t>(args.k) * sizeof(float));
      } else {
        decode(src, dst, static_cast<size_t>(args.k));
      }
    }
    const auto* const decoded = reinterpret_cast<const uint8_t*>(args.scratch);
    MultiplyGroup(args, {decoded, padded_k * sizeof(float), n_rows}, row, sums);
  }
}

void MatMulF32(const MatMulArgs& args) {
  MatMulDecoded(args, nullptr);
}
