// kernels/cpu/generic/code_matmul.inl.h - panels of quantised weights times bfloat16 activations.
// Included inside an anonymous namespace, after panel_formats.inl.h and bf16_matmul.inl.h.
//
// A code less its zero is a small whole number: exact as bfloat16. So some columns of a panel are
// decoded once, for all tokens, into the words of a bfloat16 panel. An output element is one float:
// for each group of 32 (or 16) columns, in order, the sum of codes and activations, made as in a
// bfloat16 panel, times the group's scale is added to it, fused, and then the minimum times the sum
// of the activations.

// Groups that are decoded at a time: what stays in L1 beside the activations.
constexpr int32_t kChunkGroups = 8;
// Tokens whose sums are open at a time.
constexpr int32_t kOpenTokens = 96;

struct CodeChunk {
  alignas(64) uint8_t codes[kChunkGroups * kBf16GroupBytes];
  // [group][part][row]
  alignas(64) float scales[kChunkGroups * 2 * kPanelRows];
  alignas(64) float minima[kChunkGroups * 2 * kPanelRows];
};

// Byte kByte of each lane, less zero, as the bits of a float32.
template <int kByte>
[[gnu::always_inline]] inline IVec FloatBits(IVec quad, Vec zero) {
  const Vec value = Sub(ToFloats(AndInts(ShiftInts<-8 * kByte>(quad), 0xff)), zero);
  IVec bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
// Bytes kByte and kByte + 1 as a pair of bfloat16: a float32's lower half is zero for these.
template <int kByte>
[[gnu::always_inline]] inline IVec ToBf16Word(IVec quad, Vec zero) {
  return OrInts(ShiftInts<-16>(FloatBits<kByte>(quad, zero)), FloatBits<kByte + 1>(quad, zero));
}

// All rows of some blocks.
//   next  what will be read after the panel, at the same place; or null
template <typename Format>
void DecodeChunk(const uint8_t* block, int32_t n_blocks, const uint8_t* next, CodeChunk& out) {
  const Vec zero =
      Set1(Format::kZeroShift < 0 ? 0.0f : static_cast<float>(1 << (Format::kZeroShift & 7)));
  int32_t index = 0;
  for (int32_t b = 0; b < n_blocks; ++b) {
    const uint8_t* const header_at = block;
    block += Format::kHeaderBytes;
    if (next != nullptr) next = AskFor<Format::kHeaderBytes>(next);
    for (int32_t g = 0; g < Format::kGroups; ++g, ++index, block += Format::kGroupBytes) {
      if (next != nullptr) next = AskFor<Format::kGroupBytes>(next);
      uint8_t* const codes = out.codes + index * kBf16GroupBytes;
      for (int row = 0; row < kPanelRows; row += kLanes) {
        const auto header = Format::LoadHeader(header_at, row);
        const auto decode_words = [&](auto word) __attribute__((always_inline)) {
          constexpr int kWord = decltype(word)::value;
          IVec quad[2];
          Format::template Quads<kWord>(block, row, quad[0], quad[1]);
          uint8_t* const at = codes + (4 * kWord * kPanelRows + row) * 4;
          for (int i = 0; i < 2; ++i) {
            StoreInts(at + 2 * i * 4 * kPanelRows, ToBf16Word<0>(quad[i], zero));
            StoreInts(at + (2 * i + 1) * 4 * kPanelRows, ToBf16Word<2>(quad[i], zero));
          }
        };
        ForEachIndex(std::integer_sequence<int, 0, 1, 2, 3>(), decode_words);
        const auto decode_scales = [&](auto part) __attribute__((always_inline)) {
          constexpr int kPart = decltype(part)::value;
          const int at = (index * Format::kParts + kPart) * kPanelRows + row;
          Store(out.scales + at, Format::template Scale<kPart>(block, row, header));
          if constexpr (Format::kHasMinimum)
            Store(out.minima + at, Format::template Minimum<kPart>(block, row, header));
        };
        ForEachIndex(std::make_integer_sequence<int, Format::kParts>(), decode_scales);
      }
    }
  }
}

// Some tokens' activations of a chunk's columns, and their sums.
struct CodeTokens {
  const uint16_t* x[kBf16TileTokens];
  const float* sums[kBf16TileTokens];  // [group][2]
};

// kBf16TileVecs vectors of rows from `row` on, for kTokens tokens.
//   totals  [kTokens][kPanelRows], added to
template <int kParts, bool kHasMinimum, int kTokens>
[[gnu::noinline]] void CodeTile(const CodeChunk& chunk, int row, int32_t n_groups,
                                const CodeTokens& tokens, float* totals) {
  constexpr int kVecs = kBf16TileVecs, kPartWords = kBf16GroupWords / kParts;
  const uint16_t* x[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) x[t] = tokens.x[t];
  const uint8_t* codes = chunk.codes + row * 4;
  for (int32_t g = 0; g < n_groups; ++g, codes += kBf16GroupBytes) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      Vec sum[kVecs][kTokens];
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) sum[v][t] = Zero();
      }
#pragma GCC unroll 16
      for (int i = 0; i < kPartWords; ++i) {
        const int word = part * kPartWords + i;
        Pair w[kVecs];
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) w[v] = ToPair(LoadInts(PlaneWord(codes, word, v * kLanes)));
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          const Pair xw = ToPair(BroadcastInt(x[t] + g * kGroupColumns + 2 * word));
#pragma GCC unroll 4
          for (int v = 0; v < kVecs; ++v) sum[v][t] = AddPair(sum[v][t], w[v], xw);
        }
      }
      const int at = (g * kParts + part) * kPanelRows + row;
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec scale = Load(chunk.scales + at + v * kLanes);
        Vec minimum = Zero();
        if constexpr (kHasMinimum) minimum = Load(chunk.minima + at + v * kLanes);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          float* const total = totals + t * kPanelRows + row + v * kLanes;
          Vec value = Fma(sum[v][t], scale, Load(total));
          if constexpr (kHasMinimum) {
            const float* const s = tokens.sums[t] + 2 * g;
            value = Fma(minimum, Broadcast(kParts == 1 ? s[0] + s[1] : s[part]), value);
          }
          Store(total, value);
        }
      }
    }
  }
}

// All rows for n tokens, 1 <= n <= kMost.
template <int kParts, bool kHasMinimum, int kMost>
[[gnu::always_inline]] inline void MultiplyChunk(int32_t n, const CodeChunk& chunk,
                                                 int32_t n_groups, const CodeTokens& tokens,
                                                 float* totals) {
  if constexpr (kMost > 1) {
    if (n < kMost)
      return MultiplyChunk<kParts, kHasMinimum, kMost - 1>(n, chunk, n_groups, tokens, totals);
  }
  for (int row = 0; row < kPanelRows; row += kBf16TileVecs * kLanes)
    CodeTile<kParts, kHasMinimum, kMost>(chunk, row, n_groups, tokens, totals);
}

template <typename Format>
void CodeMatMul(const Bf16MatMulArgs& args) {
  constexpr int32_t kBlockBytes = Format::kHeaderBytes + Format::kGroups * Format::kGroupBytes;
  constexpr int32_t kChunkBlocks = kChunkGroups / Format::kGroups;
  const int32_t n_groups = args.k / kGroupColumns, n_blocks = n_groups / Format::kGroups;
  const size_t panel_bytes = static_cast<size_t>(n_blocks) * kBlockBytes;
  CodeChunk chunk;
  alignas(64) float totals[kOpenTokens * kPanelRows];
  const uint8_t* panel = args.w;
  for (int32_t row = 0; row < args.n_rows; row += kPanelRows, panel += panel_bytes) {
    const uint8_t* next = row + kPanelRows < args.n_rows ? panel + panel_bytes : args.next;
    for (int32_t first = 0; first < args.n_tokens; first += kOpenTokens) {
      const int32_t n_open = MinInt(kOpenTokens, args.n_tokens - first);
      for (int32_t i = 0; i < n_open * kPanelRows; i += kLanes) Store(totals + i, Zero());
      for (int32_t b = 0; b < n_blocks; b += kChunkBlocks) {
        const int32_t n = MinInt(kChunkBlocks, n_blocks - b);
        const size_t at = static_cast<size_t>(b) * kBlockBytes;
        DecodeChunk<Format>(panel + at, n, next == nullptr ? nullptr : next + at, chunk);
        const int32_t first_group = b * Format::kGroups;
        for (int32_t t = 0; t < n_open; t += kBf16TileTokens) {
          const int32_t n_tile = MinInt(kBf16TileTokens, n_open - t);
          CodeTokens tokens = {};
          for (int32_t i = 0; i < n_tile; ++i) {
            const int32_t token = first + t + i;
            const int32_t x_row = args.x_rows == nullptr ? token : args.x_rows[token];
            const uint16_t* const x = args.x + static_cast<size_t>(x_row) * args.x_stride;
            tokens.x[i] = x + first_group * kGroupColumns;
            tokens.sums[i] =
                reinterpret_cast<const float*>(x + n_groups * kGroupColumns) + 2 * first_group;
          }
          MultiplyChunk<Format::kParts, Format::kHasMinimum, kBf16TileTokens>(
              n_tile, chunk, n * Format::kGroups, tokens, totals + t * kPanelRows);
        }
      }
      next = nullptr;  // asked for once
      for (int32_t t = 0; t < n_open; ++t)
        FinishPanelRows(args, row, first + t, totals + t * kPanelRows);
    }
  }
}

consteval void AddCodeEntries(KernelTable& table) {
  const auto set = [&table](DType dtype, KernelTable::Bf16MatMulFn matmul) {
    table.bf16_matmul[static_cast<size_t>(dtype)] = matmul;
  };
  set(DType::kQ4_0, CodeMatMul<PanelQ4_0>);
  set(DType::kQ4_1, CodeMatMul<PanelQ4_1>);
  set(DType::kQ5_0, CodeMatMul<PanelQ5_0>);
  set(DType::kQ5_1, CodeMatMul<PanelQ5_1>);
  set(DType::kQ8_0, CodeMatMul<PanelQ8_0>);
  set(DType::kQ2_K, CodeMatMul<PanelQ2_K>);
  set(DType::kQ3_K, CodeMatMul<PanelQ3_K>);
  set(DType::kQ4_K, CodeMatMul<PanelQ4_K>);
  set(DType::kQ5_K, CodeMatMul<PanelQ5_K>);
  set(DType::kQ6_K, CodeMatMul<PanelQ6_K>);
  set(DType::kIQ4_NL, CodeMatMul<PanelIQ4_NL>);
  set(DType::kIQ4_XS, CodeMatMul<PanelIQ4_XS>);
  set(DType::kMXFP4, CodeMatMul<PanelMXFP4>);
  set(DType::kNVFP4, CodeMatMul<PanelNVFP4>);
}
