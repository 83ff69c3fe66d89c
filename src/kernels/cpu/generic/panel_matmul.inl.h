// kernels/cpu/generic/panel_matmul.inl.h - panels of quantised weights times 8-bit activations.
// Included inside an anonymous namespace, after panel_part*.inl.h and panel_rows.inl.h.
//
// A lane is a row, so nothing is ever summed across lanes. An output element is one float: group by
// group, in order of the columns, the exact integer product of 32 (or 16) codes and activations
// times the product of both scales is added to it, fused, and then the minimum times the sum of the
// activations. Neither the tile nor the neighbours show in it.

// How many of a group's kBytes are asked for. For one token no more than a line: there a panel is
// read as fast as memory gives it, and the hardware's own prefetch, which only has to be led to a
// new place, does that best (59 GB/s of 60 where asking for all lines leaves 43); with more tokens
// arithmetic fills the core's window of instructions before its reads do.
constexpr int32_t AskedBytes(int32_t bytes, int n_tokens) {
  return n_tokens == 1 ? MinInt(bytes, 64) : bytes;
}

// kVecs vectors of rows from `row` on, for kTokens tokens, over all columns.
//   tokens  each token's first group
//   next    what will be read after this panel, asked for meanwhile; or null
//   out     [kTokens][kPanelRows]
template <typename Format, int kVecs, int kTokens>
void PanelTile(const uint8_t* panel, int row, int32_t n_blocks, const uint8_t* next,
               const ActivationGroup* const* tokens, float* out) {
  Vec total[kVecs][kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) total[v][t] = Zero();
  }
  const ActivationGroup* x[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) x[t] = tokens[t];
  const uint8_t* group = panel;
  for (int32_t b = 0; b < n_blocks; ++b) {
    typename Format::Header header[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) header[v] = Format::LoadHeader(group, row + v * kLanes);
    group += Format::kHeaderBytes;
    if (next != nullptr) next = AskFor<AskedBytes(Format::kHeaderBytes, kTokens)>(next);
    for (int32_t g = 0; g < Format::kGroups; ++g) {
      if (next != nullptr) next = AskFor<AskedBytes(Format::kGroupBytes, kTokens)>(next);
      const auto part = [&](auto index) __attribute__((always_inline)) {
        constexpr int kPart = decltype(index)::value;
        IVec sum[kVecs][kTokens];
        MultiplyPart<Format, kVecs, kTokens, kPart>(group, row, x, sum);
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          const Vec scale = Format::template Scale<kPart>(group, row + v * kLanes, header[v]);
#pragma GCC unroll 8
          for (int t = 0; t < kTokens; ++t) {
            total[v][t] =
                Fma(ToFloats(sum[v][t]), Mul(scale, BroadcastFloat(&x[t]->scale)), total[v][t]);
          }
          if constexpr (Format::kHasMinimum) {
            const Vec minimum = Format::template Minimum<kPart>(group, row + v * kLanes, header[v]);
#pragma GCC unroll 8
            for (int t = 0; t < kTokens; ++t) {
              const float* const xs =
                  Format::kParts == 1 ? &x[t]->scaled_sum : &x[t]->scaled_half_sum[kPart];
              total[v][t] = Fma(minimum, BroadcastFloat(xs), total[v][t]);
            }
          }
        }
      };
      if constexpr (Format::kParts == 1) {
        ForEachIndex(std::integer_sequence<int, 0>(), part);
      } else {
        ForEachIndex(std::integer_sequence<int, 0, 1>(), part);
      }
      group += Format::kGroupBytes;
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) ++x[t];
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) Store(out + t * kPanelRows + row + v * kLanes, total[v][t]);
  }
}

// All rows of a panel for kTokens tokens.
template <typename Format, int kTokens>
void PanelTokens(const uint8_t* panel, int32_t n_blocks, const uint8_t* next,
                 const ActivationGroup* const* tokens, float* out) {
  constexpr int kVecs = kTokens == 1 ? kPanelOneTokenVecs : kPanelTileVecs;
  for (int row = 0; row < kPanelRows; row += kVecs * kLanes) {
    PanelTile<Format, kVecs, kTokens>(panel, row, n_blocks, next, tokens, out);
    next = nullptr;
  }
}

// The smallest tile that holds n tokens, of 1, 2, 4 and kPanelTileTokens.
template <typename Format, int kTokens = kPanelTileTokens>
void PanelTileOf(int32_t n, const uint8_t* panel, int32_t n_blocks, const uint8_t* next,
                 const ActivationGroup* const* tokens, float* out) {
  if constexpr (kTokens > 1) {
    constexpr int kSmaller = kTokens > 4 ? 4 : kTokens / 2;
    if (n <= kSmaller) return PanelTileOf<Format, kSmaller>(n, panel, n_blocks, next, tokens, out);
  }
  PanelTokens<Format, kTokens>(panel, n_blocks, next, tokens, out);
}

template <typename Format>
void PanelMatMul(const PanelMatMulArgs& args) {
  const int32_t n_blocks = args.k / (Format::kGroups * kGroupColumns);
  constexpr int kBlockBytes = Format::kHeaderBytes + Format::kGroups * Format::kGroupBytes;
  const size_t panel_bytes = static_cast<size_t>(n_blocks) * kBlockBytes;
  const uint8_t* panel = args.w;
  for (int32_t row = 0; row < args.n_rows; row += kPanelRows, panel += panel_bytes) {
    const uint8_t* const follower = panel + panel_bytes;
    const uint8_t* next = row + kPanelRows < args.n_rows ? follower : args.next;
    if (args.n_tokens == 1 && next == follower) next = nullptr;
    for (int32_t t = 0; t < args.n_tokens;) {
      const int32_t n = MinInt(args.n_tokens - t, kPanelTileTokens);
      // A tile that is not full computes its last token again: another sweep over the panel would
      // cost more.
      const ActivationGroup* x[kPanelTileTokens];
      for (int32_t i = 0; i < kPanelTileTokens; ++i) {
        const int32_t token = t + MinInt(i, n - 1);
        const int32_t x_row = args.x_rows == nullptr ? token : args.x_rows[token];
        x[i] = args.x + static_cast<size_t>(x_row) * args.x_stride;
      }
      alignas(64) float sums[kPanelTileTokens * kPanelRows];
      PanelTileOf<Format>(n, panel, n_blocks, next, x, sums);
      for (int32_t i = 0; i < n; ++i) FinishPanelRows(args, row, t + i, sums + i * kPanelRows);
      next = nullptr;  // asked for once
      t += n;
    }
  }
}

// One group as ActivationGroup says.
inline void QuantizeGroup(const float* x, ActivationGroup* out) {
  constexpr int kVecs = kGroupColumns / kLanes;
  Vec largest = Zero(), poison = Zero();
  for (int v = 0; v < kVecs; ++v) {
    const Vec value = Load(x + v * kLanes);
    largest = Max(Negate(NegAbs(value)), largest);
    poison = Fma(value, Zero(), poison);  // NaN where a value is not finite
  }
  const float max = ReduceMax(largest) + ReduceSum(poison);
  constexpr float kSmallest = 0x1p-120f;  // 127 / max is finite from here on
  float sums[2] = {0, 0};
  if (max >= kSmallest) {
    const Vec inverse = Set1(127.0f / max);
    for (int v = 0; v < kVecs; ++v) {
      const Vec value = Round(Mul(Load(x + v * kLanes), inverse));
      StoreBytes(out->q + v * kLanes, value);
      sums[v * kLanes / 16] += ReduceSum(value);  // whole numbers: exact in any order
    }
  } else {
    for (int i = 0; i < kGroupColumns; ++i) out->q[i] = 0;
  }
  const float scale = max < kSmallest ? 0.0f : max / 127.0f;
  out->scale = scale;
  out->negative_sum = -static_cast<int32_t>(sums[0] + sums[1]);
  out->negative_half_sum[0] = -static_cast<int32_t>(sums[0]);
  out->negative_half_sum[1] = -static_cast<int32_t>(sums[1]);
  out->scaled_sum = scale * (sums[0] + sums[1]);
  out->scaled_half_sum[0] = scale * sums[0];
  out->scaled_half_sum[1] = scale * sums[1];
  out->unused = 0;
}

void QuantizeRow(const float* x, int32_t k, ActivationGroup* out) {
  for (int32_t c = 0; c < k; c += kGroupColumns) QuantizeGroup(x + c, out++);
}

consteval void AddPanelEntries(KernelTable& table) {
  table.quantize_row = QuantizeRow;
  const auto set = [&table](DType dtype, KernelTable::PanelMatMulFn matmul) {
    table.panel_matmul[static_cast<size_t>(dtype)] = matmul;
  };
  set(DType::kQ4_0, PanelMatMul<PanelQ4_0>);
  set(DType::kQ4_1, PanelMatMul<PanelQ4_1>);
  set(DType::kQ5_0, PanelMatMul<PanelQ5_0>);
  set(DType::kQ5_1, PanelMatMul<PanelQ5_1>);
  set(DType::kQ8_0, PanelMatMul<PanelQ8_0>);
  set(DType::kQ2_K, PanelMatMul<PanelQ2_K>);
  set(DType::kQ3_K, PanelMatMul<PanelQ3_K>);
  set(DType::kQ4_K, PanelMatMul<PanelQ4_K>);
  set(DType::kQ5_K, PanelMatMul<PanelQ5_K>);
  set(DType::kQ6_K, PanelMatMul<PanelQ6_K>);
  set(DType::kIQ4_NL, PanelMatMul<PanelIQ4_NL>);
  set(DType::kIQ4_XS, PanelMatMul<PanelIQ4_XS>);
  set(DType::kMXFP4, PanelMatMul<PanelMXFP4>);
  set(DType::kNVFP4, PanelMatMul<PanelNVFP4>);
}

// The table of a set that has integer products alone of its own.
consteval KernelTable PanelEntries(const char* name) {
  KernelTable table;
  table.name = name;
  AddPanelEntries(table);
  return table;
}
