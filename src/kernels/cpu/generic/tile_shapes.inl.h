// kernels/cpu/generic/tile_shapes.inl.h - the shapes of AMX's tile registers, and which register
// holds what. Included inside an anonymous namespace, before tiles_*.inl.h.

// The 64 bytes that LDTILECFG reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;  // eight tiles of up to 16 rows of up to 64 bytes
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

// Tokens and rows of weights that a tile of sums has.
constexpr int32_t kTileSide = 16;
static_assert(kPanelRows == 2 * kTileSide);
// A block is two tiles of tokens by a panel's two of rows: four tiles of sums, and two of each
// factor.
constexpr int32_t kBlockTokens = 2 * kTileSide;

constexpr int SumTile(int tokens, int rows) {
  return 2 * tokens + rows;
}
constexpr int TokenTile(int tokens) {
  return 4 + tokens;
}
constexpr int WeightTile(int rows) {
  return 6 + rows;
}

// For blocks of n_tokens whose rows give factor_bytes to a product. Tiles have no more rows than
// there are tokens, so that a product of few tokens takes less time and nothing is padded.
inline TileShapes BlockShapes(int32_t n_tokens, int32_t factor_bytes) {
  TileShapes out;
  const auto set = [&out](int tile, int32_t rows, int32_t row_bytes) {
    out.rows[tile] = static_cast<uint8_t>(rows);
    out.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  };
  for (int half = 0; half < 2; ++half) {
    const int32_t n = MinInt(n_tokens - half * kTileSide, kTileSide);
    set(WeightTile(half), factor_bytes / 4, 4 * kTileSide);
    if (n <= 0) continue;
    set(TokenTile(half), n, factor_bytes);
    for (int rows = 0; rows < 2; ++rows) set(SumTile(half, rows), n, 4 * kTileSide);
  }
  return out;
}
