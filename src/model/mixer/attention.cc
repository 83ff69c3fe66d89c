#include "model/mixer/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/finite.h"

namespace colibri {
namespace {

// Queries of one key-value head that are computed together, at most, and the floats that they may
// take: what a core's second cache holds beside the keys and values that stream through it.
constexpr int32_t kMostQueries = 96;
constexpr uint64_t kTileFloats = 96 * 1024;
// Whole register tiles of every instruction set.
constexpr int32_t kQueryStep = 12;
// Chunks' answers that may wait to be merged, for each thread.
constexpr uint64_t kPartialFloats = 256 * 1024;

uint64_t RoundUp(uint64_t n) {
  return (n + 15) / 16 * 16;
}

int32_t QueriesOfTile(const LayerKvLayout& layout) {
  const auto floats = static_cast<uint64_t>(layout.head_dim) +
                      2 * static_cast<uint64_t>(PanelDim(layout.v_head_dim)) +
                      static_cast<uint64_t>(kScoreStride);
  const auto n = static_cast<int32_t>(
      std::clamp<uint64_t>(kTileFloats / floats, 1, static_cast<uint64_t>(kMostQueries)));
  return n < kQueryStep ? n : n / kQueryStep * kQueryStep;
}

// What a tile of queries knows after some chunks.
struct Partial {
  float* max;  // [n_queries]
  float* sum;  // [n_queries]
  float* out;  // [n_queries, PanelDim(v_head_dim)]

  static uint64_t Floats(int32_t n_queries, int32_t v_head_dim) {
    const auto n = static_cast<uint64_t>(n_queries);
    return RoundUp(2 * n) + n * static_cast<uint64_t>(PanelDim(v_head_dim));
  }
  static Partial At(float* base, int32_t n_queries) {
    return {base, base + n_queries, base + RoundUp(2 * static_cast<uint64_t>(n_queries))};
  }
};

// Some query heads of one key-value head for a run of tokens of one slice.
struct Tile {
  const SequenceSlice* slice;
  int32_t slice_row;  // the slice's first token in the batch
  int32_t kv_head;
  int32_t first_head, n_heads;
  int32_t first_token, n_tokens;  // within the slice
  int32_t first_chunk, n_chunks;  // of positions that any of its queries sees

  int32_t n_queries() const { return n_heads * n_tokens; }
  int32_t position() const { return slice->position + first_token; }
};

// How a layer's queries are cut into tiles.
class Tiling {
 public:
  explicit Tiling(const AttentionCall& call) : call_(call) {
    const int32_t group = call.n_heads / call.layout.n_heads, most = QueriesOfTile(call.layout);
    head_chunks_ = (group + most - 1) / most;
    heads_ = (group + head_chunks_ - 1) / head_chunks_;
    tokens_ = std::max(1, most / heads_);
  }

  int64_t NumTiles(const SequenceSlice& slice) const {
    return TokenTiles(slice) * head_chunks_ * call_.layout.n_heads;
  }
  // The latest tokens see the most positions: they come first, so that no thread ends with the
  // longest task.
  Tile Get(const SequenceSlice& slice, int32_t slice_row, int64_t index) const {
    const int64_t heads_in_tile = static_cast<int64_t>(head_chunks_) * call_.layout.n_heads;
    const int64_t token_tile = TokenTiles(slice) - 1 - index / heads_in_tile;
    const auto head_task = static_cast<int32_t>(index % heads_in_tile);
    const int32_t group = call_.n_heads / call_.layout.n_heads;
    Tile tile{};
    tile.slice = &slice;
    tile.slice_row = slice_row;
    tile.kv_head = head_task / head_chunks_;
    const int32_t head = head_task % head_chunks_ * heads_;
    tile.first_head = tile.kv_head * group + head;
    tile.n_heads = std::min(heads_, group - head);
    tile.first_token = static_cast<int32_t>(token_tile) * tokens_;
    tile.n_tokens = std::min(tokens_, slice.n_tokens - tile.first_token);
    tile.first_chunk = Start(tile.position()) / kAttentionChunk;
    tile.n_chunks = (tile.position() + tile.n_tokens - 1) / kAttentionChunk - tile.first_chunk + 1;
    return tile;
  }
  // The first position that a query at `position` sees.
  int32_t Start(int32_t position) const {
    return call_.window > 0 ? std::max(0, position - call_.window + 1) : 0;
  }
  // Of the largest tile.
  int32_t n_queries() const { return heads_ * tokens_; }

 private:
  int64_t TokenTiles(const SequenceSlice& slice) const {
    return (slice.n_tokens + tokens_ - 1) / tokens_;
  }

  const AttentionCall& call_;
  int32_t head_chunks_;  // of a key-value head
  int32_t heads_;        // of a chunk, at most
  int32_t tokens_;       // of a tile, at most
};

// One thread's work on tiles.
class TileAttention {
 public:
  TileAttention(const KernelTable& kernels, const KvStorage& kv, const AttentionCall& call,
                const Tiling& tiling, float* scratch)
      : kernels_(kernels),
        kv_(kv),
        call_(call),
        layout_(call.layout),
        tiling_(tiling),
        scratch_(scratch) {
    const int32_t n = QueriesOfTile(layout_);
    q_stride_ = static_cast<int32_t>(RoundUp(static_cast<uint64_t>(n)));
    q_ = scratch + RoundUp(AttendScratchFloats(n, layout_.v_head_dim, layout_.values_in_keys));
    state_ = q_ + static_cast<size_t>(layout_.head_dim) * static_cast<size_t>(q_stride_);
    partial_ = state_ + Partial::Floats(n, layout_.v_head_dim);
  }

  static uint64_t ScratchFloats(const LayerKvLayout& layout) {
    const int32_t n = QueriesOfTile(layout);
    return RoundUp(AttendScratchFloats(n, layout.v_head_dim, layout.values_in_keys)) +
           static_cast<uint64_t>(layout.head_dim) * RoundUp(static_cast<uint64_t>(n)) +
           2 * Partial::Floats(n, layout.v_head_dim);
  }

  // A tile from its queries to its answer.
  void Run(const Tile& tile) {
    const Partial state = Partial::At(state_, tile.n_queries()),
                  partial = Partial::At(partial_, tile.n_queries());
    LoadQueries(tile);
    Clear(tile, state);
    for (int32_t c = 0; c < tile.n_chunks; ++c) {
      ComputeChunk(tile, tile.first_chunk + c, partial);
      Merge(tile, partial, state);
    }
    Finish(tile, state);
  }

  // The same in steps.
  void LoadQueries(const Tile& tile) {
    const auto head_dim = static_cast<size_t>(layout_.head_dim),
               stride = static_cast<size_t>(q_stride_);
    for (int32_t t = 0; t < tile.n_tokens; ++t) {
      for (int32_t h = 0; h < tile.n_heads; ++h) {
        const float* const row = call_.q + Row(tile, t, h) * head_dim;
        float* const column = q_ + t * tile.n_heads + h;
        for (size_t c = 0; c < head_dim; ++c) column[c * stride] = row[c] * call_.scale;
      }
    }
  }

  static void Clear(const Tile& tile, const Partial& state) {
    std::fill_n(state.max, tile.n_queries(), -std::numeric_limits<float>::infinity());
    std::fill_n(state.sum, tile.n_queries(), 0.0f);
  }

  void ComputeChunk(const Tile& tile, int32_t chunk, const Partial& out) {
    const int32_t base = chunk * kAttentionChunk;
    const int32_t n_queries = tile.n_queries();
    int32_t begin[kMostQueries], end[kMostQueries];
    for (int32_t t = 0; t < tile.n_tokens; ++t) {
      const int32_t position = tile.position() + t;
      const int32_t from = std::clamp(tiling_.Start(position) - base, 0, kAttentionChunk),
                    to = std::clamp(position + 1 - base, 0, kAttentionChunk);
      for (int32_t h = 0; h < tile.n_heads; ++h) {
        begin[t * tile.n_heads + h] = from;
        end[t * tile.n_heads + h] = to;
      }
    }
    const uint8_t *keys[kChunkPanels] = {}, *values[kChunkPanels] = {};
    const auto head = static_cast<uint64_t>(tile.kv_head);
    for (int32_t i = begin[0] / kPageTokens; i * kPageTokens < end[n_queries - 1]; ++i) {
      const auto page =
          static_cast<uint64_t>(tile.slice->pages[static_cast<size_t>(base / kPageTokens + i)]);
      const uint8_t* const at = kv_.pages + page * kv_.layout->page_bytes;
      keys[i] = at + layout_.k_offset + head * layout_.k_panel_bytes;
      values[i] = at + layout_.v_offset + head * layout_.v_panel_bytes;
    }
    AttendArgs args{};
    args.keys = keys;
    args.values = layout_.values_in_keys ? nullptr : values;
    args.head_dim = layout_.head_dim;
    args.v_head_dim = layout_.v_head_dim;
    args.q = q_;
    args.q_stride = q_stride_;
    args.n_queries = n_queries;
    args.begin = begin;
    args.end = end;
    args.max = out.max;
    args.sum = out.sum;
    args.out = out.out;
    args.scratch = scratch_;
    kernels_.attend[static_cast<size_t>(kv_.layout->type)](args);
  }

  void Merge(const Tile& tile, const Partial& next, const Partial& state) const {
    const auto dim = static_cast<size_t>(PanelDim(layout_.v_head_dim));
    for (int32_t i = 0; i < tile.n_queries(); ++i) {
      if (next.sum[i] == 0.0f) continue;  // sees none of the chunk
      const float* const add = next.out + static_cast<size_t>(i) * dim;
      float* const out = state.out + static_cast<size_t>(i) * dim;
      if (state.sum[i] == 0.0f) {
        state.max[i] = next.max[i];
        state.sum[i] = next.sum[i];
        std::copy_n(add, dim, out);
        continue;
      }
      const float max = std::max(state.max[i], next.max[i]);
      const float keep = std::exp(state.max[i] - max), take = std::exp(next.max[i] - max);
      state.max[i] = max;
      state.sum[i] = state.sum[i] * keep + next.sum[i] * take;
      kernels_.blend(take, add, keep, dim, out);
    }
  }

  void Finish(const Tile& tile, const Partial& state) const {
    const auto v_dim = static_cast<size_t>(layout_.v_head_dim),
               dim = static_cast<size_t>(PanelDim(layout_.v_head_dim));
    for (int32_t t = 0; t < tile.n_tokens; ++t) {
      for (int32_t h = 0; h < tile.n_heads; ++h) {
        const int32_t i = t * tile.n_heads + h;
        float factor = 1.0f / state.sum[i];
        if (call_.sinks != nullptr) {
          const float sink = call_.sinks[tile.first_head + h];
          const float max = std::max(state.max[i], sink), keep = std::exp(state.max[i] - max);
          factor = keep / (state.sum[i] * keep + std::exp(sink - max));
        }
        const float* const in = state.out + static_cast<size_t>(i) * dim;
        float* const out = call_.out + Row(tile, t, h) * v_dim;
        for (size_t c = 0; c < v_dim; ++c) out[c] = in[c] * factor;
      }
    }
  }

 private:
  // Of a query among all tokens' heads.
  size_t Row(const Tile& tile, int32_t t, int32_t h) const {
    return static_cast<size_t>(tile.slice_row + tile.first_token + t) *
               static_cast<size_t>(call_.n_heads) +
           static_cast<size_t>(tile.first_head + h);
  }

  const KernelTable& kernels_;
  const KvStorage& kv_;
  const AttentionCall& call_;
  const LayerKvLayout& layout_;
  const Tiling& tiling_;
  int32_t q_stride_;
  float* scratch_;  // the kernel's
  float* q_;        // [head_dim, q_stride_] by column, scaled
  float* state_;
  float* partial_;
};

// All tiles of a step, by number.
class TileList {
 public:
  TileList(const Batch& batch, const Tiling& tiling, Workspace& w)
      : batch_(batch), tiling_(tiling), w_(w) {
    w.slice_task.clear();
    for (const SequenceSlice& slice : batch.slices) {
      w.slice_task.push_back(size_);
      size_ += tiling.NumTiles(slice);
    }
  }
  int64_t size() const { return size_; }
  Tile operator[](int64_t i) const {
    const auto next = std::upper_bound(w_.slice_task.begin(), w_.slice_task.end(), i);
    const auto s = static_cast<size_t>(next - w_.slice_task.begin()) - 1;
    return tiling_.Get(batch_.slices[s], w_.slice_row[s], i - w_.slice_task[s]);
  }

 private:
  const Batch& batch_;
  const Tiling& tiling_;
  Workspace& w_;
  int64_t size_ = 0;
};

// Too few tiles for all threads, and more than one chunk to divide them by: decodes of long
// sequences.
bool IsWorthSplitting(const ExecutionContext& context, const TileList& tiles) {
  const auto n_threads = static_cast<uint64_t>(context.pool.n_threads());
  if (n_threads == 1 || static_cast<uint64_t>(tiles.size()) >= MostSplitTiles(n_threads)) {
    return false;
  }
  for (int64_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i].n_chunks > 1) return true;
  }
  return false;
}

// Every chunk of every tile is a task; who ends a tile's last one merges them, in order. As many
// chunks at a time as their answers have room.
class SplitAttention {
 public:
  SplitAttention(ExecutionContext& context, const KvStorage& kv, const AttentionCall& call,
                 const Tiling& tiling, const TileList& tiles, Workspace& w)
      : context_(context),
        kv_(kv),
        call_(call),
        tiling_(tiling),
        tiles_(tiles),
        w_(w),
        slot_floats_(Partial::Floats(tiling.n_queries(), call.layout.v_head_dim)) {}

  void Run() {
    int32_t most_chunks = 0;
    for (int64_t i = 0; i < tiles_.size(); ++i) {
      most_chunks = std::max(most_chunks, tiles_[i].n_chunks);
    }
    // A slot for each tile's state, the others for chunks.
    const auto slots = static_cast<int64_t>(w_.partial_floats / slot_floats_);
    const int64_t room = slots / tiles_.size() - 1;
    COLIBRI_CHECK(room >= 1);
    per_round_ = static_cast<int32_t>(std::min<int64_t>(room, most_chunks));
    for (int32_t first = 0; first < most_chunks; first += per_round_) ComputeRound(first);
  }

 private:
  void ComputeRound(int32_t first) {
    for (int64_t i = 0; i < tiles_.size(); ++i) {
      w_.pending_chunks[static_cast<size_t>(i)].store(ChunksInRound(tiles_[i], first),
                                                      std::memory_order_relaxed);
    }
    context_.pool.ParallelFor(tiles_.size() * per_round_, [&](int64_t task, int thread) {
      const int64_t i = task % tiles_.size();
      const auto c = static_cast<int32_t>(task / tiles_.size());
      const Tile tile = tiles_[i];
      if (c >= ChunksInRound(tile, first)) return;
      TileAttention attention(context_.kernels, kv_, call_, tiling_, w_.attend.of(thread));
      attention.LoadQueries(tile);
      attention.ComputeChunk(tile, tile.first_chunk + first + c, ChunkSlot(tile, i, c));
      const int32_t before =
          w_.pending_chunks[static_cast<size_t>(i)].fetch_sub(1, std::memory_order_acq_rel);
      if (before == 1) EndRound(attention, tile, i, first);
    });
  }

  void EndRound(const TileAttention& attention, const Tile& tile, int64_t i, int32_t first) const {
    const Partial state = Slot(tile, i);
    if (first == 0) TileAttention::Clear(tile, state);
    const int32_t n = ChunksInRound(tile, first);
    for (int32_t c = 0; c < n; ++c) attention.Merge(tile, ChunkSlot(tile, i, c), state);
    if (first + n == tile.n_chunks) attention.Finish(tile, state);
  }

  int32_t ChunksInRound(const Tile& tile, int32_t first) const {
    return std::clamp(tile.n_chunks - first, 0, per_round_);
  }
  Partial Slot(const Tile& tile, int64_t index) const {
    return Partial::At(w_.partials + static_cast<uint64_t>(index) * slot_floats_, tile.n_queries());
  }
  Partial ChunkSlot(const Tile& tile, int64_t i, int32_t chunk) const {
    return Slot(tile, tiles_.size() + i * per_round_ + chunk);
  }

  ExecutionContext& context_;
  const KvStorage& kv_;
  const AttentionCall& call_;
  const Tiling& tiling_;
  const TileList& tiles_;
  Workspace& w_;
  uint64_t slot_floats_;
  int32_t per_round_ = 0;
};

}  // namespace

void Attend(ExecutionContext& context, const Batch& batch, const KvStorage& kv,
            const AttentionCall& call, Workspace& w) {
  const Tiling tiling(call);
  const TileList tiles(batch, tiling, w);
  if (IsWorthSplitting(context, tiles)) {
    SplitAttention(context, kv, call, tiling, tiles, w).Run();
    return;
  }
  context.pool.ParallelFor(tiles.size(), [&](int64_t task, int thread) {
    TileAttention(context.kernels, kv, call, tiling, w.attend.of(thread)).Run(tiles[task]);
  });
}

bool StoreRows(const KernelTable& kernels, const KvStorage& kv, const LayerKvLayout& layout,
               const SequenceSlice& slice, int32_t position, const float* k, const float* v) {
  const auto type = static_cast<size_t>(kv.layout->type);
  const auto page = static_cast<uint64_t>(slice.pages[static_cast<size_t>(position / kPageTokens)]);
  uint8_t* const base = kv.pages + page * kv.layout->page_bytes;
  const int32_t in_page = position % kPageTokens;
  for (int32_t h = 0; h < layout.n_heads; ++h) {
    const auto head = static_cast<uint64_t>(h);
    kernels.store_keys[type](k + head * static_cast<uint64_t>(layout.head_dim), layout.head_dim,
                             in_page, base + layout.k_offset + head * layout.k_panel_bytes);
    if (layout.values_in_keys) continue;
    kernels.store_values[type](v + head * static_cast<uint64_t>(layout.v_head_dim),
                               layout.v_head_dim, in_page,
                               base + layout.v_offset + head * layout.v_panel_bytes);
  }
  const float limit = KvTypeLimit(kv.layout->type);
  return AllBelow(k, layout.k_floats(), limit) && AllBelow(v, layout.v_floats(), limit);
}

uint64_t AttentionScratchFloats(const LayerKvLayout& layout) {
  return TileAttention::ScratchFloats(layout);
}

uint64_t AttentionPartialFloats(const LayerKvLayout& layout, uint64_t n_threads) {
  if (n_threads == 1) return 0;
  // At least a state and a chunk of each tile.
  const uint64_t least = 2 * (MostSplitTiles(n_threads) / n_threads) *
                         Partial::Floats(QueriesOfTile(layout), layout.v_head_dim);
  return n_threads * std::max(kPartialFloats, least);
}

}  // namespace colibri
