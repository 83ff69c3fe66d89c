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

// kRows x kTokens elements over n columns.
//   w     the first row; the next ones w_stride bytes apart
//   x     each token's row
//   sums  a vector for each element, [token][kGroupRows], to be continued
template <int kRows, int kTokens>
void Tile(const uint8_t* w, size_t w_stride, const float* const* x, int32_t n, float* sums) {
  Vec sum[kRows][kTokens];
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      sum[r][t] = Load(sums + (t * kGroupRows + r) * kLanes);
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
      Vec wv = Load(row[r] + static_cast<size_t>(c) * sizeof(float));
      if (kTokens > 1) KeepInRegister(wv);
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

// A tile's tokens with n_rows rows of float32 over n columns.
template <int kTokens>
void TileRows(const uint8_t* w, size_t w_stride, int32_t n_rows, const float* const* x, int32_t n,
              float* sums) {
  int32_t r = 0;
  for (; r + kTileRows <= n_rows; r += kTileRows) {
    Tile<kTileRows, kTokens>(w + static_cast<size_t>(r) * w_stride, w_stride, x, n,
                             sums + r * kLanes);
  }
  if constexpr (kTileRows >= 4) {
    for (; r + kTileRows / 2 <= n_rows; r += kTileRows / 2) {
      Tile<kTileRows / 2, kTokens>(w + static_cast<size_t>(r) * w_stride, w_stride, x, n,
                                   sums + r * kLanes);
    }
  }
  for (; r < n_rows; ++r) {
    Tile<1, kTokens>(w + static_cast<size_t>(r) * w_stride, w_stride, x, n, sums + r * kLanes);
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

inline void ClearSums(float* sums, int32_t n_tokens) {
  for (int32_t i = 0; i < n_tokens * kGroupRows; ++i) Store(sums + i * kLanes, Zero());
}

// Up to kGroupRows rows as float32, either where they are stored or decoded chunk by chunk: then a
// chunk's rows lie side by side, since rows far apart would fall on the same few sets of the cache.
struct RowGroup {
  const uint8_t* w;
  size_t stored_stride;  // bytes between rows as stored; 0: decoded
  int32_t n_rows;

  const uint8_t* Chunk(int32_t c) const {
    const auto column = static_cast<size_t>(c);
    return w + column * sizeof(float) * (stored_stride == 0 ? kGroupRows : 1);
  }
  size_t RowStride(int32_t n) const {
    return stored_stride == 0 ? DecodedStride(n) : stored_stride;
  }
  static size_t DecodedStride(int32_t n) {
    return (static_cast<size_t>(n) * sizeof(float) + 63) / 64 * 64;
  }
};

// A group of rows with every token.
inline void MultiplyGroup(const MatMulArgs& args, const RowGroup& group, int32_t row, float* sums) {
  for (int32_t token = 0; token < args.n_tokens; token += kTokenBlock) {
    const int32_t n_tokens = MinInt(kTokenBlock, args.n_tokens - token);
    ClearSums(sums, n_tokens);
    for (int32_t c = 0; c < args.k; c += kColumnChunk) {
      const int32_t n = MinInt(kColumnChunk, args.k - c);
      const uint8_t* const w = group.Chunk(c);
      const size_t w_stride = group.RowStride(n);
      for (int32_t t = 0; t < n_tokens; t += kTileTokens) {
        const int32_t n_tile = MinInt(kTileTokens, n_tokens - t);
        const float* x[kTileTokens] = {};
        for (int32_t i = 0; i < n_tile; ++i) x[i] = TokenRow(args, token + t + i) + c;
        float* const mine = sums + static_cast<size_t>(t) * kGroupRows * kLanes;
        if (n_tile == 1) {
          TileRows<1>(w, w_stride, group.n_rows, x, n, mine);
        } else if (n_tile == 2) {
          TileRows<2>(w, w_stride, group.n_rows, x, n, mine);
        } else {
          TileRows<kTileTokens>(w, w_stride, group.n_rows, x, n, mine);
        }
      }
    }
    WriteSums(args, row, group.n_rows, token, n_tokens, sums);
  }
}

// How a stored row becomes float32.
struct RowDecoder {
  KernelTable::DecodeFn decode;
  size_t chunk_bytes;  // of kColumnChunk stored elements
};

// The matmul of every type.
inline void MatMulDecoded(const MatMulArgs& args, const RowDecoder& decoder) {
  const auto padded_k = RowGroup::DecodedStride(args.k) / sizeof(float);
  float* const sums = args.scratch + static_cast<size_t>(kGroupRows) * padded_k;
  auto* const decoded = reinterpret_cast<uint8_t*>(args.scratch);
  for (int32_t row = 0; row < args.n_rows; row += kGroupRows) {
    const int32_t n_rows = MinInt(kGroupRows, args.n_rows - row);
    const uint8_t* const w =
        static_cast<const uint8_t*>(args.w) + static_cast<size_t>(row) * args.w_row_bytes;
    const RowGroup group{decoded, 0, n_rows};
    for (int32_t r = 0; r < n_rows; ++r) {
      const uint8_t* src = w + static_cast<size_t>(r) * args.w_row_bytes;
      for (int32_t c = 0; c < args.k; c += kColumnChunk, src += decoder.chunk_bytes) {
        const int32_t n = MinInt(kColumnChunk, args.k - c);
        const auto offset = static_cast<size_t>(group.Chunk(c) - decoded) +
                            static_cast<size_t>(r) * RowGroup::DecodedStride(n);
        decoder.decode(src, args.scratch + offset / sizeof(float), static_cast<size_t>(n));
      }
    }
    MultiplyGroup(args, group, row, sums);
  }
}

inline void CopyFloats(const void* src, float* dst, size_t n) {
  std::memcpy(dst, src, n * sizeof(float));
}

// From this many tokens on, copying float32 rows side by side costs less than it gives.
constexpr int32_t kCopyTokens = 12;

void MatMulF32(const MatMulArgs& args) {
  if (args.n_tokens >= kCopyTokens) {
    MatMulDecoded(args, {CopyFloats, kColumnChunk * sizeof(float)});
    return;
  }
  alignas(64) float sums[kGroupRows * kLanes * kCopyTokens];
  for (int32_t row = 0; row < args.n_rows; row += kGroupRows) {
    const int32_t n_rows = MinInt(kGroupRows, args.n_rows - row);
    const uint8_t* const w =
        static_cast<const uint8_t*>(args.w) + static_cast<size_t>(row) * args.w_row_bytes;
    MultiplyGroup(args, {w, args.w_row_bytes, n_rows}, row, sums);
  }
}
