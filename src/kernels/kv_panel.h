// kernels/kv_panel.h - how a cache stores keys and values, and what attention's kernels read of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace colibri {

// The element type of cached keys and values. kQ8_0 has a binary16 scale for each run of 32
// elements of a position's row.
enum class KvType : uint8_t { kF32, kBF16, kF16, kQ8_0 };
inline constexpr size_t kNumKvTypes = 4;

// A panel holds the keys, or the values, of one key-value head for this many consecutive positions.
//   keys    [dim][32]: a vector's lanes are positions, so a score needs no sum over lanes
//   values  [32][dim]: a vector's lanes are elements of the answer
// with dim rounded up to a multiple of 32. A kQ8_0 panel begins with its scales, binary16
// [dim / 32][32].
inline constexpr int32_t kPanelPositions = 32;
inline constexpr int32_t kPanelDimStep = 32;

// Elements of a panel's row of `dim` elements, dim < 2^24.
constexpr int32_t PanelDim(int32_t dim) {
  return (dim + kPanelDimStep - 1) / kPanelDimStep * kPanelDimStep;
}

// A multiple of 64.
constexpr uint64_t PanelBytes(KvType type, int32_t dim) {
  const auto elements = static_cast<uint64_t>(PanelDim(dim)) * kPanelPositions;
  switch (type) {
    case KvType::kF32:
      return elements * 4;
    case KvType::kBF16:
    case KvType::kF16:
      return elements * 2;
    case KvType::kQ8_0:
      return elements + elements / kPanelDimStep * 2;
  }
  return 0;
}

// Positions that attention takes at a time. Chunks begin at multiples of it, so which position
// belongs to which chunk never depends on a step; a chunk's answer is complete in itself, and
// chunks are merged in order.
inline constexpr int32_t kAttentionChunk = 256;
inline constexpr int32_t kChunkPanels = kAttentionChunk / kPanelPositions;

// Some queries of one key-value head with one chunk of positions. Query i sees positions
// [begin[i], end[i]) of the chunk, 0 <= begin <= end <= 256.
//   max     [n_queries]  the largest of its scores; -infinity where it sees none
//   sum     [n_queries]  of exp(score - max) over what it sees, in a fixed order
//   out     [n_queries, PanelDim(v_head_dim)]  the same exponentials times the values, added in
//           order of the positions; zeros beyond v_head_dim and where it sees none
// The panels that no query sees may be null. Where a position is hidden from a query, that query's
// bits do not depend on its key, nor on its value as long as that is finite; of the positions from
// the largest end on, values are not read.
struct AttendArgs {
  const uint8_t* const* keys;    // [8] the chunk's key panels
  const uint8_t* const* values;  // [8] its value panels; null: a value is the first v_head_dim
                                 // elements of its key
  int32_t head_dim;
  int32_t v_head_dim;
  const float* q;  // [head_dim, q_stride] queries by column, multiplied by the scores' scale
  int32_t q_stride;
  int32_t n_queries;
  const int32_t* begin;
  const int32_t* end;
  float* max;
  float* sum;
  float* out;
  float* scratch;  // AttendScratchFloats, 64-byte aligned
};

// Of a query's scores in the scratch. The odd line keeps the rows of a tile of queries in different
// sets of the cache.
inline constexpr int32_t kScoreStride = kAttentionChunk + 16;

// Scores, and one panel of values read from keys.
constexpr size_t AttendScratchFloats(int32_t n_queries, int32_t v_head_dim, bool values_in_keys) {
  const auto values = static_cast<size_t>(PanelDim(v_head_dim)) * kPanelPositions;
  return static_cast<size_t>(n_queries) * kScoreStride + (values_in_keys ? values : 0);
}

}  // namespace colibri
