// kernels/cpu/generic/fused.inl.h - decoding and multiplying at once, for one token: the weights
// are used only once, so a trip through the scratch would be for nothing.
// Included inside an anonymous namespace, after blocks.inl.h and matmul.inl.h.

// Rows side by side: their chains of sums hide each other's latency.
constexpr int kFusedRows = 4;
// How far ahead weights are asked for, at least: enough for the memory's latency, little for L2.
constexpr size_t kPrefetchBytes = 16384;

// The distance from a group of rows to what the next calls will read. Rows lie one after the other,
// so within a group the distance must cover the whole group.
inline size_t PrefetchDistance(int n_rows, size_t w_stride) {
  const size_t group = static_cast<size_t>(n_rows) * w_stride;
  return group > kPrefetchBytes ? group : kPrefetchBytes;
}
template <size_t kBytes>
[[gnu::always_inline]] inline void PrefetchAhead(const uint8_t* p) {
  for (size_t line = 0; line < kBytes; line += 64) PrefetchL2(p + line);
}

// The sums of kRows rows with x, as Tile makes them.
template <typename Block, int kRows>
void DotBlocks(const uint8_t* w, size_t w_stride, const float* x, int32_t k, float* sums) {
  Vec sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = Zero();
  const int32_t n_blocks = k / Block::kElements;
  const uint8_t* const next = w + PrefetchDistance(kRows, w_stride);
  for (int32_t b = 0; b < n_blocks; ++b) {
    const float* const xb = x + static_cast<size_t>(b) * Block::kElements;
    const uint8_t* const wb = w + static_cast<size_t>(b) * Block::kBytes;
    // The rows lie one after the other: what follows them is the next call's.
    PrefetchAhead<kRows * Block::kBytes>(next + static_cast<size_t>(b) * kRows * Block::kBytes);
    typename Block::Factors factors[kRows];
    for (int r = 0; r < kRows; ++r) {
      Block::Prepare(wb + static_cast<size_t>(r) * w_stride, factors[r]);
    }
    // Part by part and in it row by row: a whole block of one row is a long chain of additions.
    ForEachIndex(
        std::make_integer_sequence<int, Block::kParts>(), [&](auto part) __attribute__((
                                                              always_inline)) {
          for (int r = 0; r < kRows; ++r) {
            Block::template Part<decltype(part)::value>(
                wb + static_cast<size_t>(r) * w_stride,
                factors[r], [&](int i, Vec v) __attribute__((always_inline)) {
                  sum[r] = Fma(v, Load(xb + i * kLanes), sum[r]);
                });
          }
        });
  }
  for (int r = 0; r < kRows; ++r) Store(sums + r * kLanes, sum[r]);
}

// The same for a type without blocks.
template <typename Plain, int kRows>
void DotPlain(const uint8_t* w, size_t w_stride, const float* x, int32_t k, float* sums) {
  constexpr size_t kBytes = Plain::kBytes;
  Vec sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = Zero();
  const uint8_t* const next = w + PrefetchDistance(kRows, w_stride);
  int32_t c = 0;
  for (; c + kLanes <= k; c += kLanes) {
    const Vec xv = Load(x + c);
    PrefetchAhead<kRows * kLanes * kBytes>(next + static_cast<size_t>(c) * kRows * kBytes);
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* const p =
          w + static_cast<size_t>(r) * w_stride + static_cast<size_t>(c) * kBytes;
      sum[r] = Fma(Plain::LoadAll(p), xv, sum[r]);
    }
  }
  if (c < k) {
    const Vec xv = LoadN(x + c, k - c);
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* const p =
          w + static_cast<size_t>(r) * w_stride + static_cast<size_t>(c) * kBytes;
      sum[r] = Fma(Plain::LoadFirst(p, k - c), xv, sum[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) Store(sums + r * kLanes, sum[r]);
}

using DotFn = void (*)(const uint8_t* w, size_t w_stride, const float* x, int32_t k, float* sums);

// All rows with one token.
inline void MultiplyOneToken(const MatMulArgs& args, DotFn dot_rows, DotFn dot_row) {
  const float* const x = TokenRow(args, 0);
  for (int32_t row = 0; row < args.n_rows; row += kGroupRows) {
    const int32_t n_rows = MinInt(kGroupRows, args.n_rows - row);
    const uint8_t* const w =
        static_cast<const uint8_t*>(args.w) + static_cast<size_t>(row) * args.w_row_bytes;
    alignas(64) float sums[kGroupRows * kLanes] = {};
    int32_t r = 0;
    for (; r + kFusedRows <= n_rows; r += kFusedRows) {
      dot_rows(w + static_cast<size_t>(r) * args.w_row_bytes, args.w_row_bytes, x, args.k,
               sums + r * kLanes);
    }
    for (; r < n_rows; ++r) {
      dot_row(w + static_cast<size_t>(r) * args.w_row_bytes, args.w_row_bytes, x, args.k,
              sums + r * kLanes);
    }
    WriteSums(args, row, n_rows, 0, 1, sums);
  }
}

template <typename Block>
void DecodeBlocks(const void* src, float* dst, size_t n) {
  const auto* block = static_cast<const uint8_t*>(src);
  for (size_t i = 0; i < n; i += Block::kElements, block += Block::kBytes) {
    typename Block::Factors factors;
    Block::Prepare(block, factors);
    ForEachIndex(
        std::make_integer_sequence<int, Block::kParts>(), [&](auto part) __attribute__((
                                                              always_inline)) {
          Block::template Part<decltype(part)::value>(
              block, factors, [&](int j, Vec v) __attribute__((always_inline)) {
                Store(dst + i + j * kLanes, v);
              });
        });
  }
}

template <typename Block>
void MatMulBlocks(const MatMulArgs& args) {
  if (args.n_tokens == 1) {
    MultiplyOneToken(args, DotBlocks<Block, kFusedRows>, DotBlocks<Block, 1>);
  } else {
    MatMulDecoded(args, {DecodeBlocks<Block>,
                         static_cast<size_t>(kColumnChunk / Block::kElements * Block::kBytes)});
  }
}

template <typename Plain>
void DecodePlain(const void* src, float* dst, size_t n) {
  const auto* const p = static_cast<const uint8_t*>(src);
  ForEachVector(n, [&](size_t i, int count) {
    const Vec v = count == kLanes ? Plain::LoadAll(p + i * Plain::kBytes)
                                  : Plain::LoadFirst(p + i * Plain::kBytes, count);
    StoreUpTo(dst + i, v, count);
  });
}

template <typename Plain>
void MatMulPlain(const MatMulArgs& args) {
  if (args.n_tokens == 1) {
    MultiplyOneToken(args, DotPlain<Plain, kFusedRows>, DotPlain<Plain, 1>);
  } else {
    MatMulDecoded(args, {DecodePlain<Plain>, kColumnChunk * Plain::kBytes});
  }
}

// The types whose decoding is vectorised.
consteval KernelTable WithVectorDecoders(KernelTable table) {
  const auto set = [&table](DType dtype, KernelTable::DecodeFn decode,
                            KernelTable::MatMulFn matmul) {
    table.decode[static_cast<size_t>(dtype)] = decode;
    table.matmul[static_cast<size_t>(dtype)] = matmul;
  };
  set(DType::kF16, DecodePlain<F16>, MatMulPlain<F16>);
  set(DType::kBF16, DecodePlain<BF16>, MatMulPlain<BF16>);
  set(DType::kF8_E4M3, DecodePlain<F8_E4M3>, MatMulPlain<F8_E4M3>);
  set(DType::kF8_E5M2, DecodePlain<F8_E5M2>, MatMulPlain<F8_E5M2>);
  set(DType::kQ4_0, DecodeBlocks<Q4_0>, MatMulBlocks<Q4_0>);
  set(DType::kQ4_1, DecodeBlocks<Q4_1>, MatMulBlocks<Q4_1>);
  set(DType::kQ5_0, DecodeBlocks<Q5_0>, MatMulBlocks<Q5_0>);
  set(DType::kQ5_1, DecodeBlocks<Q5_1>, MatMulBlocks<Q5_1>);
  set(DType::kQ8_0, DecodeBlocks<Q8_0>, MatMulBlocks<Q8_0>);
  set(DType::kQ2_K, DecodeBlocks<Q2_K>, MatMulBlocks<Q2_K>);
  set(DType::kQ3_K, DecodeBlocks<Q3_K>, MatMulBlocks<Q3_K>);
  set(DType::kQ4_K, DecodeBlocks<Q4_K>, MatMulBlocks<Q4_K>);
  set(DType::kQ5_K, DecodeBlocks<Q5_K>, MatMulBlocks<Q5_K>);
  set(DType::kQ6_K, DecodeBlocks<Q6_K>, MatMulBlocks<Q6_K>);
  set(DType::kIQ4_NL, DecodeBlocks<IQ4_NL>, MatMulBlocks<IQ4_NL>);
  set(DType::kIQ4_XS, DecodeBlocks<IQ4_XS>, MatMulBlocks<IQ4_XS>);
  set(DType::kTQ2_0, DecodeBlocks<TQ2_0>, MatMulBlocks<TQ2_0>);
  set(DType::kMXFP4, DecodeBlocks<MXFP4>, MatMulBlocks<MXFP4>);
  set(DType::kNVFP4, DecodeBlocks<NVFP4>, MatMulBlocks<NVFP4>);
  return table;
}
