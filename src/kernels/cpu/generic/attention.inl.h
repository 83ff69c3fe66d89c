// kernels/cpu/generic/attention.inl.h - attention over a chunk of cached positions, and the writing
// of a cache's panels.
// Included inside an anonymous namespace, after vector_ops.inl.h and matmul.inl.h.
//
// A score is one chain of fused multiply-adds over the columns, an element of the answer one over
// the positions, whatever tile they are computed in. What is hidden from a query takes part in its
// sums as zero, which changes no bit: a sum that would differ in its sign alone, -0, is made +0.

struct PanelF32 {
  static constexpr bool kIsScaled = false;
  static constexpr size_t kBytes = 4;
  static Vec Widen(const uint8_t* p) { return Load(p); }
  static void Put(uint8_t* p, float x) { std::memcpy(p, &x, sizeof(x)); }
};

inline uint32_t BitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

struct PanelBF16 {
  static constexpr bool kIsScaled = false;
  static constexpr size_t kBytes = 2;
  static Vec Widen(const uint8_t* p) { return LoadBF16(p); }
  static void Put(uint8_t* p, float x) {
    uint32_t bits = BitsOf(x);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    // To nearest, ties to even; a NaN must not become an infinity.
    bits = is_nan ? bits | 0x00400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
    const auto upper = static_cast<uint16_t>(bits >> 16);
    std::memcpy(p, &upper, sizeof(upper));
  }
};

struct PanelF16 {
  static constexpr bool kIsScaled = false;
  static constexpr size_t kBytes = 2;
  static Vec Widen(const uint8_t* p) { return LoadF16(p); }
  static void Put(uint8_t* p, float x) {
    const uint16_t half = RoundToHalf(x);
    std::memcpy(p, &half, sizeof(half));
  }
};

struct PanelQ8 {
  static constexpr bool kIsScaled = true;
  static constexpr size_t kBytes = 1;
  static Vec Widen(const uint8_t* p) { return LoadInt8(p); }
};

// Where a panel's elements begin, and the scales of a run of columns.
template <typename Type>
inline size_t ElementsOffset(int32_t dim) {
  return Type::kIsScaled ? static_cast<size_t>(PanelDim(dim)) * 2 : 0;
}
inline const uint8_t* ScalesOf(const uint8_t* panel, int32_t column) {
  return panel + static_cast<size_t>(column / kPanelDimStep) * kPanelPositions * 2;
}

// Asks for the cache lines of a vector that is read soon. Inlined always: g++ drops calls of
// functions that only prefetch.
template <typename Type>
[[gnu::always_inline]] inline void PrefetchVector(const uint8_t* p) {
  __builtin_prefetch(p, 0, 2);
  static_assert(kLanes * Type::kBytes <= 64);
}

// The positions, or columns, of a tile's vectors.
constexpr int kUnit = kAttendVectors * kLanes;
static_assert(kPanelPositions % kUnit == 0 && kPanelDimStep % kUnit == 0);
// A tile of few queries takes several units at a time, so that enough sums are open to hide the
// latency of an addition.
template <int kQueries>
constexpr int kUnitsOf = kQueries* kAttendVectors >= 8   ? 1
                         : kQueries* kAttendVectors >= 4 ? 2
                                                         : 4;

// The panel that stands `position` behind the chunk's first: of keys, then of values; null where
// nobody sees it.
inline const uint8_t* PanelAhead(const AttendArgs& args, int32_t position) {
  if (position < kAttentionChunk) return args.keys[position / kPanelPositions];
  const int32_t beyond = (position - kAttentionChunk) / kPanelPositions;
  return args.values == nullptr || beyond >= kChunkPanels ? nullptr : args.values[beyond];
}

// Scores of kQueries queries with kUnits units of positions.
//   first  the position in the chunk where the first unit begins
//   ahead  panels are read but once: those that come next are asked for
//   q      column 0 of the first query
//   out    the first query's scores of the chunk
template <typename Type, int kQueries, int kUnits>
void ScoreTile(const AttendArgs& args, int32_t first, bool ahead, const float* q, float* out) {
  constexpr int kVectors = kUnits * kAttendVectors;
  constexpr int kStep = kUnits * kUnit > kPanelPositions ? kUnits * kUnit : kPanelPositions;
  const uint8_t* panel[kUnits];
  const uint8_t* row[kUnits];
  ptrdiff_t to_next[kUnits];
  for (int u = 0; u < kUnits; ++u) {
    const int32_t at = first + u * kUnit;
    panel[u] = args.keys[at / kPanelPositions];
    const uint8_t* const next = ahead ? PanelAhead(args, at + kStep) : nullptr;
    to_next[u] = next == nullptr ? 0 : next - panel[u];
    row[u] = panel[u] + ElementsOffset<Type>(args.head_dim) +
             static_cast<size_t>(at % kPanelPositions) * Type::kBytes;
  }
  const auto q_stride = static_cast<size_t>(args.q_stride);
  Vec sum[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) sum[i][v] = Zero();
  }
  for (int32_t c = 0; c < args.head_dim; c += kPanelDimStep) {
    Vec scale[kVectors] = {};
    if constexpr (Type::kIsScaled) {
      for (int v = 0; v < kVectors; ++v) {
        const int32_t at = first % kPanelPositions + v * kLanes;
        scale[v] = LoadF16(ScalesOf(panel[v / kAttendVectors], c) + at % kPanelPositions * 2);
      }
    }
    const int32_t n = MinInt(kPanelDimStep, args.head_dim - c);
    for (int32_t i = 0; i < n; ++i) {
      Vec k[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        const uint8_t* const from = row[v / kAttendVectors] +
                                    static_cast<size_t>(v % kAttendVectors * kLanes) * Type::kBytes;
        PrefetchVector<Type>(from + to_next[v / kAttendVectors]);
        k[v] = Type::Widen(from);
        if constexpr (Type::kIsScaled) k[v] = Mul(k[v], scale[v]);
        KeepInRegister(k[v]);
      }
      for (int j = 0; j < kQueries; ++j) {
        const Vec x = Set1(q[j]);
        for (int v = 0; v < kVectors; ++v) sum[j][v] = Fma(k[v], x, sum[j][v]);
      }
      q += q_stride;
      for (int u = 0; u < kUnits; ++u) row[u] += kPanelPositions * Type::kBytes;
    }
  }
  for (int j = 0; j < kQueries; ++j) {
    for (int v = 0; v < kVectors; ++v)
      Store(out + j * kScoreStride + first + v * kLanes, sum[j][v]);
  }
}

// The scores of n_queries <= kQueries queries with positions [begin, end) of the chunk, whole
// units.
template <typename Type, int kQueries>
void ScoreQueries(const AttendArgs& args, int32_t n_queries, int32_t begin, int32_t end, bool ahead,
                  const float* q, float* out) {
  if constexpr (kQueries > 1) {
    if (n_queries < kQueries) {
      return ScoreQueries<Type, kQueries - 1>(args, n_queries, begin, end, ahead, q, out);
    }
  }
  constexpr int kUnits = kUnitsOf<kQueries>;
  int32_t at = begin;
  for (; at + kUnits * kUnit <= end; at += kUnits * kUnit) {
    ScoreTile<Type, kQueries, kUnits>(args, at, ahead, q, out);
  }
  for (; at < end; at += kUnit) ScoreTile<Type, kQueries, 1>(args, at, ahead, q, out);
}

// Adds weighted values of positions [begin, end) to kQueries answers' columns [column, column +
// kUnits * kUnit).
//   panels  of the chunk
//   to_next from a panel to one that is read later and asked for now; 0: none
//   weight  the first query's weights of the chunk
//   out     its answer's row; the rows are PanelDim(v_head_dim) apart
template <typename Type, int kQueries, int kUnits>
void ValueTile(const uint8_t* const* panels, int32_t v_head_dim, int32_t begin, int32_t end,
               ptrdiff_t to_next, int32_t column, const float* weight, float* out) {
  constexpr int kVectors = kUnits * kAttendVectors;
  constexpr int kRuns = kUnits * kUnit > kPanelDimStep ? kUnits * kUnit / kPanelDimStep : 1;
  const auto dim = static_cast<size_t>(PanelDim(v_head_dim));
  out += column;
  Vec sum[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sum[i][v] = Load(out + static_cast<size_t>(i) * dim + v * kLanes);
    }
  }
  for (int32_t p = begin; p < end;) {
    const uint8_t* const panel = panels[p / kPanelPositions];
    const int32_t in_panel = p % kPanelPositions;
    const int32_t stop = MinInt(end, p - in_panel + kPanelPositions);
    alignas(64) float scales[kRuns][kPanelPositions];
    if constexpr (Type::kIsScaled) {
      for (int r = 0; r < kRuns; ++r) {
        const uint8_t* const stored = ScalesOf(panel, column + r * kPanelDimStep);
        for (int i = 0; i < kPanelPositions; i += kLanes) {
          Store(scales[r] + i, LoadF16(stored + i * 2));
        }
      }
    }
    const uint8_t* row =
        panel + ElementsOffset<Type>(v_head_dim) +
        (static_cast<size_t>(in_panel) * dim + static_cast<size_t>(column)) * Type::kBytes;
    for (int32_t i = in_panel; p < stop; ++p, ++i, row += dim * Type::kBytes) {
      Vec x[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        const uint8_t* const from = row + static_cast<size_t>(v) * kLanes * Type::kBytes;
        PrefetchVector<Type>(from + to_next);
        x[v] = Type::Widen(from);
        if constexpr (Type::kIsScaled) {
          x[v] = Mul(x[v], Set1(scales[v * kLanes / kPanelDimStep][i]));
        }
        KeepInRegister(x[v]);
      }
      for (int j = 0; j < kQueries; ++j) {
        const Vec w = Set1(weight[j * kScoreStride + p]);
        for (int v = 0; v < kVectors; ++v) sum[j][v] = Fma(w, x[v], sum[j][v]);
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      Store(out + static_cast<size_t>(i) * dim + v * kLanes, Add(sum[i][v], Zero()));
    }
  }
}

template <typename Type, int kQueries>
void AddValues(const uint8_t* const* panels, int32_t v_head_dim, int32_t n_queries, int32_t begin,
               int32_t end, ptrdiff_t to_next, const float* weight, float* out) {
  if constexpr (kQueries > 1) {
    if (n_queries < kQueries) {
      return AddValues<Type, kQueries - 1>(panels, v_head_dim, n_queries, begin, end, to_next,
                                           weight, out);
    }
  }
  constexpr int kUnits = kUnitsOf<kQueries>;
  const int32_t dim = PanelDim(v_head_dim);
  int32_t c = 0;
  for (; c + kUnits * kUnit <= dim; c += kUnits * kUnit) {
    ValueTile<Type, kQueries, kUnits>(panels, v_head_dim, begin, end, to_next, c, weight, out);
  }
  for (; c < dim; c += kUnit) {
    ValueTile<Type, kQueries, 1>(panels, v_head_dim, begin, end, to_next, c, weight, out);
  }
}

// Turns a query's scores of [begin, end) into exp(score - max), and what else of [from, to) is read
// into zeros. Position p is always lane p % kLanes of sum p / kLanes % 4.
inline void ExponentiateScores(float* s, int32_t begin, int32_t end, int32_t from, int32_t to,
                               float* max_out, float* sum_out) {
  constexpr int32_t kStep = 4 * kLanes;
  const float infinity = __builtin_inff();
  int32_t low = begin / kStep * kStep, high = (end + kStep - 1) / kStep * kStep;
  if (begin >= end) low = high = from;
  for (int32_t p = low; p < begin; ++p) s[p] = -infinity;
  for (int32_t p = end; p < high; ++p) s[p] = -infinity;
  Vec largest = Set1(-infinity);
  for (int32_t p = low; p < high; p += kLanes) largest = Max(Load(s + p), largest);
  const float max = ReduceMax(largest);
  const float sum = ExpSum(s + low, static_cast<size_t>(high - low), max);
  for (int32_t p = from; p < low; ++p) s[p] = 0.0f;
  for (int32_t p = high; p < to; ++p) s[p] = 0.0f;
  *max_out = max;
  *sum_out = sum;
}

// A panel of values, float32, from one of keys.
template <typename Type>
void ValuesFromKeys(const AttendArgs& args, const uint8_t* panel, float* out) {
  const int32_t dim = PanelDim(args.v_head_dim);
  const auto stride = static_cast<size_t>(dim);
  const uint8_t* const rows = panel + ElementsOffset<Type>(args.head_dim);
  for (int32_t c = 0; c < dim; c += 8) {
    alignas(64) float block[8][kPanelPositions];
    for (int32_t i = 0; i < 8; ++i) {
      const uint8_t* const row = rows + static_cast<size_t>(c + i) * kPanelPositions * Type::kBytes;
      for (int32_t p = 0; p < kPanelPositions; p += kLanes) {
        if (c + i >= args.v_head_dim) {
          Store(block[i] + p, Zero());
          continue;
        }
        Vec v = Type::Widen(row + static_cast<size_t>(p) * Type::kBytes);
        if constexpr (Type::kIsScaled) v = Mul(v, LoadF16(ScalesOf(panel, c) + p * 2));
        Store(block[i] + p, v);
      }
    }
    for (int32_t p = 0; p < kPanelPositions; p += 8) {
      Transpose8x8(block[0] + p, kPanelPositions, out + static_cast<size_t>(p) * stride + c,
                   stride);
    }
  }
}

// Queries that a register tile takes together, and what they see between them.
struct QueryBlock {
  int32_t first, n;
  int32_t begin, end;  // nothing where begin >= end
};

// Blocks of equal size as far as they go: one of twelve and one of one would leave the second slow.
struct QueryBlocks {
  explicit QueryBlocks(const AttendArgs& arguments)
      : args(arguments), n((arguments.n_queries + kAttendQueries - 1) / kAttendQueries) {}
  QueryBlock operator[](int32_t b) const {
    QueryBlock block;
    block.first = b * args.n_queries / n;
    block.n = (b + 1) * args.n_queries / n - block.first;
    block.begin = kAttentionChunk;
    block.end = 0;
    for (int32_t i = block.first; i < block.first + block.n; ++i) {
      if (args.begin[i] >= args.end[i]) continue;
      block.begin = MinInt(block.begin, args.begin[i]);
      block.end = args.end[i] > block.end ? args.end[i] : block.end;
    }
    return block;
  }
  const AttendArgs& args;
  int32_t n;
};

template <typename Type>
inline void ComputeScores(const AttendArgs& args, const QueryBlocks& blocks) {
  // One block sees a panel once: it may take several together. More blocks take a panel in turns,
  // while it is in the first cache.
  const int32_t step = blocks.n == 1 ? kAttentionChunk : kPanelPositions;
  for (int32_t at = 0; at < kAttentionChunk; at += step) {
    for (int32_t b = 0; b < blocks.n; ++b) {
      const QueryBlock block = blocks[b];
      const int32_t begin = block.begin / kUnit * kUnit;
      const int32_t end = (block.end + kUnit - 1) / kUnit * kUnit;
      ScoreQueries<Type, kAttendQueries>(
          args, block.n, at > begin ? at : begin, MinInt(at + step, end), blocks.n == 1,
          args.q + block.first, args.scratch + static_cast<size_t>(block.first) * kScoreStride);
    }
  }
}

template <typename Type>
inline void AddAllValues(const AttendArgs& args, const QueryBlocks& blocks) {
  const auto dim = static_cast<size_t>(PanelDim(args.v_head_dim));
  if (blocks.n > 1) {
    for (int32_t b = 0; b < blocks.n; ++b) {
      const QueryBlock block = blocks[b];
      const auto first = static_cast<size_t>(block.first);
      AddValues<Type, kAttendQueries>(args.values, args.v_head_dim, block.n, block.begin, block.end,
                                      0, args.scratch + first * kScoreStride,
                                      args.out + first * dim);
    }
    return;
  }
  // A single block waits for memory: it reads a panel from front to back while the next one comes.
  const QueryBlock block = blocks[0];
  for (int32_t at = 0; at < kAttentionChunk; at += kPanelPositions) {
    const int32_t begin = at > block.begin ? at : block.begin;
    const int32_t end = MinInt(at + kPanelPositions, block.end);
    if (begin >= end) continue;
    const uint8_t* const next = PanelAhead(args, kAttentionChunk + at + kPanelPositions);
    AddValues<Type, kAttendQueries>(args.values, args.v_head_dim, block.n, begin, end,
                                    next == nullptr ? 0 : next - args.values[at / kPanelPositions],
                                    args.scratch, args.out);
  }
}

// Panel after panel: only one is ever widened.
template <typename Type>
inline void AddValuesOfKeys(const AttendArgs& args, const QueryBlocks& blocks) {
  const auto dim = static_cast<size_t>(PanelDim(args.v_head_dim));
  float* const widened = args.scratch + static_cast<size_t>(args.n_queries) * kScoreStride;
  const uint8_t* panels[kChunkPanels] = {};
  for (int32_t at = 0; at < kAttentionChunk; at += kPanelPositions) {
    bool is_ready = false;
    for (int32_t b = 0; b < blocks.n; ++b) {
      const QueryBlock block = blocks[b];
      const int32_t begin = at > block.begin ? at : block.begin;
      const int32_t end = MinInt(at + kPanelPositions, block.end);
      if (begin >= end) continue;
      if (!is_ready) {
        ValuesFromKeys<Type>(args, args.keys[at / kPanelPositions], widened);
        panels[at / kPanelPositions] = reinterpret_cast<const uint8_t*>(widened);
        is_ready = true;
      }
      const auto first = static_cast<size_t>(block.first);
      AddValues<PanelF32, kAttendQueries>(panels, args.v_head_dim, block.n, begin, end, 0,
                                          args.scratch + first * kScoreStride,
                                          args.out + first * dim);
    }
  }
}

template <typename Type>
void Attend(const AttendArgs& args) {
  const QueryBlocks blocks(args);
  ComputeScores<Type>(args, blocks);
  for (int32_t b = 0; b < blocks.n; ++b) {
    const QueryBlock block = blocks[b];
    for (int32_t i = block.first; i < block.first + block.n; ++i) {
      ExponentiateScores(args.scratch + static_cast<size_t>(i) * kScoreStride, args.begin[i],
                         args.end[i], block.begin, block.end, args.max + i, args.sum + i);
    }
  }
  std::memset(args.out, 0,
              static_cast<size_t>(args.n_queries) * static_cast<size_t>(PanelDim(args.v_head_dim)) *
                  sizeof(float));
  if (args.values != nullptr) {
    AddAllValues<Type>(args, blocks);
  } else {
    AddValuesOfKeys<Type>(args, blocks);
  }
}

// Element i of a position's row lies at first + i * step.
template <typename Type>
inline void StoreRow(const float* row, int32_t dim, size_t step, uint8_t* first) {
  for (int32_t i = 0; i < dim; ++i) Type::Put(first + static_cast<size_t>(i) * step, row[i]);
}

// The same for 32 elements at most with their scale.
inline void StoreRun(const float* row, int32_t n, size_t step, uint8_t* first, uint8_t* scale_at) {
  float largest = 0.0f;
  bool is_finite = true;
  for (int32_t i = 0; i < n; ++i) {
    const float size = __builtin_fabsf(row[i]);
    if (!(size <= 3.40282347e38f)) is_finite = false;
    if (size > largest) largest = size;
  }
  // Infinity times any quant is not finite: what was not, is not hidden.
  const uint16_t half = RoundToHalf(is_finite ? largest / 127.0f : __builtin_inff());
  std::memcpy(scale_at, &half, sizeof(half));
  const float scale = Half(scale_at);
  const bool has_values = scale > 0.0f && scale <= 65504.0f;
  for (int32_t i = 0; i < n; ++i) {
    float q = has_values ? row[i] / scale : 0.0f;
    q = q < -127.0f ? -127.0f : q > 127.0f ? 127.0f : q;
    const auto rounded = static_cast<int8_t>(q < 0.0f ? q - 0.5f : q + 0.5f);
    std::memcpy(first + static_cast<size_t>(i) * step, &rounded, 1);
  }
}

template <typename Type>
void StoreKeys(const float* row, int32_t dim, int32_t position, uint8_t* panel) {
  const auto at = static_cast<size_t>(position);
  uint8_t* const elements = panel + ElementsOffset<Type>(dim) + at * Type::kBytes;
  constexpr size_t kStep = kPanelPositions * Type::kBytes;
  if constexpr (!Type::kIsScaled) {
    StoreRow<Type>(row, dim, kStep, elements);
  } else {
    for (int32_t c = 0; c < dim; c += kPanelDimStep) {
      StoreRun(row + c, MinInt(kPanelDimStep, dim - c), kStep,
               elements + static_cast<size_t>(c) * kStep,
               panel + static_cast<size_t>(c / kPanelDimStep) * kPanelPositions * 2 + at * 2);
    }
  }
}

template <typename Type>
void StoreValues(const float* row, int32_t dim, int32_t position, uint8_t* panel) {
  const auto at = static_cast<size_t>(position), padded = static_cast<size_t>(PanelDim(dim));
  uint8_t* const elements = panel + ElementsOffset<Type>(dim) + at * padded * Type::kBytes;
  std::memset(elements + static_cast<size_t>(dim) * Type::kBytes, 0,
              (padded - static_cast<size_t>(dim)) * Type::kBytes);
  if constexpr (!Type::kIsScaled) {
    StoreRow<Type>(row, dim, Type::kBytes, elements);
  } else {
    for (int32_t c = 0; c < dim; c += kPanelDimStep) {
      StoreRun(row + c, MinInt(kPanelDimStep, dim - c), 1, elements + c,
               panel + static_cast<size_t>(c / kPanelDimStep) * kPanelPositions * 2 + at * 2);
    }
  }
}

void Blend(float a, const float* x, float b, size_t n, float* y) {
  const Vec va = Set1(a), vb = Set1(b);
  ForEachVector(n, [&](size_t i, int count) {
    StoreUpTo(y + i, Fma(va, LoadUpTo(x + i, count), Mul(vb, LoadUpTo(y + i, count))), count);
  });
}

// In order of KvType.
consteval auto AttendEntries() {
  return std::array<KernelTable::AttendFn, kNumKvTypes>{Attend<PanelF32>, Attend<PanelBF16>,
                                                        Attend<PanelF16>, Attend<PanelQ8>};
}
consteval auto StoreKeysEntries() {
  return std::array<KernelTable::StorePanelFn, kNumKvTypes>{
      StoreKeys<PanelF32>, StoreKeys<PanelBF16>, StoreKeys<PanelF16>, StoreKeys<PanelQ8>};
}
consteval auto StoreValuesEntries() {
  return std::array<KernelTable::StorePanelFn, kNumKvTypes>{
      StoreValues<PanelF32>, StoreValues<PanelBF16>, StoreValues<PanelF16>, StoreValues<PanelQ8>};
}
