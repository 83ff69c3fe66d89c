#include "model/mixer/attention.h"

#include <algorithm>
#include <cmath>

namespace colibri {
namespace {

// A task takes some query heads of one key-value head for a run of tokens of one slice.
constexpr int32_t kHeadsPerTask = 16;
constexpr int32_t kTokensPerTask = 32;

struct Tiling {
  int32_t head_chunks;  // a key-value head
  int32_t heads;        // a chunk, at most
  int32_t tokens;       // a task, at most
  int64_t token_tiles;
  int64_t n_tasks(int32_t n_kv_heads) const { return token_tiles * head_chunks * n_kv_heads; }
};

// Positions whose scores a run of `tokens` tokens needs at most, in whole pages.
int64_t ScoreSpan(const AttentionCall& call, const SequenceSlice& slice, int32_t tokens) {
  const int64_t all = static_cast<int64_t>(slice.position) + slice.n_tokens;
  const int64_t span =
      call.window > 0
          ? std::min<int64_t>(all, static_cast<int64_t>(call.window) + tokens + kPageTokens)
          : all;
  return (span + kPageTokens - 1) / kPageTokens * kPageTokens + kPageTokens;
}

Tiling TileSlice(const AttentionCall& call, const SequenceSlice& slice, uint64_t score_floats) {
  Tiling tiling;
  const int32_t group = call.n_heads / call.n_kv_heads;
  tiling.head_chunks = (group + kHeadsPerTask - 1) / kHeadsPerTask;
  tiling.heads = std::min(group, kHeadsPerTask);
  tiling.tokens = std::min(kTokensPerTask, slice.n_tokens);
  while (tiling.tokens > 1 && static_cast<uint64_t>(tiling.tokens) *
                                      static_cast<uint64_t>(tiling.heads) *
                                      static_cast<uint64_t>(ScoreSpan(call, slice, tiling.tokens)) >
                                  score_floats) {
    tiling.tokens /= 2;
  }
  tiling.token_tiles = (slice.n_tokens + tiling.tokens - 1) / tiling.tokens;
  return tiling;
}

struct Tile {
  const SequenceSlice* slice;
  int32_t slice_row;  // the slice's first token in the batch
  int32_t kv_head;
  int32_t first_head, n_heads;
  int32_t first_token, n_tokens;  // within the slice
};

class TileAttention {
 public:
  TileAttention(const KernelTable& kernels, const KvStorage& kv, uint64_t page_floats,
                const AttentionCall& call, float* scores, float* matmul_scratch)
      : kernels_(kernels),
        kv_(kv),
        page_floats_(page_floats),
        call_(call),
        scores_(scores),
        matmul_scratch_(matmul_scratch) {}

  void Run(const Tile& tile) {
    const int32_t last_position = tile.slice->position + tile.first_token + tile.n_tokens - 1;
    const int32_t first_page = Start(tile.slice->position + tile.first_token) / kPageTokens,
                  last_page = last_position / kPageTokens;
    base_ = first_page * kPageTokens;
    stride_ = static_cast<size_t>(last_page - first_page + 1) * kPageTokens;
    ComputeScores(tile, first_page, last_page, last_position);
    for (int32_t t = 0; t < tile.n_tokens; ++t) {
      for (int32_t h = 0; h < tile.n_heads; ++h) FinishQuery(tile, t, h);
    }
  }

 private:
  // The first position that a query at `position` sees.
  int32_t Start(int32_t position) const {
    return call_.window > 0 ? std::max(0, position - call_.window + 1) : 0;
  }

  void ComputeScores(const Tile& tile, int32_t first_page, int32_t last_page,
                     int32_t last_position) {
    int32_t rows[kTokensPerTask * kHeadsPerTask];
    int32_t n_rows = 0;
    for (int32_t t = 0; t < tile.n_tokens; ++t) {
      for (int32_t h = 0; h < tile.n_heads; ++h)
        rows[n_rows++] = t * call_.n_heads + tile.first_head + h;
    }
    const float* q = call_.q + static_cast<size_t>(tile.slice_row + tile.first_token) *
                                   static_cast<size_t>(call_.n_heads) *
                                   static_cast<size_t>(call_.head_dim);
    for (int32_t page = first_page; page <= last_page; ++page) {
      const float* keys = KvRow(kv_, page_floats_, *tile.slice, page * kPageTokens,
                                call_.layout.k_offset, call_.layout.k_floats) +
                          static_cast<size_t>(tile.kv_head) * static_cast<size_t>(call_.head_dim);
      MatMulArgs args{};
      args.w = keys;
      args.w_row_bytes = call_.layout.k_floats * sizeof(float);
      args.n_rows = std::min(kPageTokens, last_position - page * kPageTokens + 1);
      args.k = call_.head_dim;
      args.x = q;
      args.x_stride = static_cast<size_t>(call_.head_dim);
      args.x_rows = rows;
      args.n_tokens = n_rows;
      args.out = scores_ + static_cast<size_t>(page - first_page) * kPageTokens;
      args.out_stride = stride_;
      args.scratch = matmul_scratch_;
      kernels_.matmul[static_cast<size_t>(DType::kF32)](args);
    }
  }

  void FinishQuery(const Tile& tile, int32_t t, int32_t h) {
    const int32_t position = tile.slice->position + tile.first_token + t, start = Start(position),
                  n = position - start + 1;
    float* p = scores_ + static_cast<size_t>(t * tile.n_heads + h) * stride_ + (start - base_);
    for (int32_t i = 0; i < n; ++i) p[i] *= call_.scale;
    float max = kernels_.max(p, static_cast<size_t>(n));
    const float* sink = call_.sinks != nullptr ? call_.sinks + tile.first_head + h : nullptr;
    if (sink != nullptr) max = std::max(max, *sink);
    float sum = kernels_.exp_sum(p, static_cast<size_t>(n), max);
    if (sink != nullptr) sum += std::exp(*sink - max);

    float* out = call_.out + (static_cast<size_t>(tile.slice_row + tile.first_token + t) *
                                  static_cast<size_t>(call_.n_heads) +
                              static_cast<size_t>(tile.first_head + h)) *
                                 static_cast<size_t>(call_.v_head_dim);
    const auto v_dim = static_cast<size_t>(call_.v_head_dim);
    std::fill_n(out, v_dim, 0.0f);
    // Latent attention's values are the first part of its keys.
    const bool shared = call_.layout.v_offset == call_.layout.k_offset;
    const uint32_t row_floats = shared ? call_.layout.k_floats : call_.layout.v_floats;
    for (int32_t at = start; at <= position;) {
      const int32_t run = std::min(kPageTokens - at % kPageTokens, position - at + 1);
      const float* values =
          KvRow(kv_, page_floats_, *tile.slice, at, call_.layout.v_offset, row_floats) +
          static_cast<size_t>(tile.kv_head) * v_dim;
      kernels_.weighted_sum(p + (at - start), static_cast<size_t>(run), values, row_floats, v_dim,
                            out);
      at += run;
    }
    const float inverse = 1.0f / sum;
    for (size_t i = 0; i < v_dim; ++i) out[i] *= inverse;
  }

  const KernelTable& kernels_;
  const KvStorage& kv_;
  uint64_t page_floats_;
  const AttentionCall& call_;
  float* scores_;  // [queries of the tile, stride_]
  float* matmul_scratch_;
  size_t stride_ = 0;  // positions of whole pages
  int32_t base_ = 0;   // the position of the first score
};

}  // namespace

void Attend(ExecutionContext& context, const Batch& batch, const KvStorage& kv,
            uint64_t page_floats, const AttentionCall& call, Workspace& w) {
  int64_t n_tasks = 0;
  w.slice_task.clear();
  for (const SequenceSlice& slice : batch.slices) {
    w.slice_task.push_back(n_tasks);
    n_tasks += TileSlice(call, slice, w.score_floats).n_tasks(call.n_kv_heads);
  }
  const int32_t group = call.n_heads / call.n_kv_heads;
  context.pool.ParallelFor(n_tasks, [&](int64_t task, int thread) {
    const auto next = std::upper_bound(w.slice_task.begin(), w.slice_task.end(), task);
    const auto s = static_cast<size_t>(next - w.slice_task.begin()) - 1;
    const SequenceSlice& slice = batch.slices[s];
    const Tiling tiling = TileSlice(call, slice, w.score_floats);
    // The latest tokens have the most positions: they go first, so that no thread ends with the
    // longest task.
    const int64_t in_slice = task - w.slice_task[s],
                  heads_in_tile = static_cast<int64_t>(tiling.head_chunks) * call.n_kv_heads;
    const int64_t token_tile = tiling.token_tiles - 1 - in_slice / heads_in_tile,
                  head_task = in_slice % heads_in_tile;
    Tile tile{};
    tile.slice = &slice;
    tile.slice_row = w.slice_row[s];
    tile.kv_head = static_cast<int32_t>(head_task / tiling.head_chunks);
    const auto chunk = static_cast<int32_t>(head_task % tiling.head_chunks) * tiling.heads;
    tile.first_head = tile.kv_head * group + chunk;
    tile.n_heads = std::min(tiling.heads, group - chunk);
    tile.first_token = static_cast<int32_t>(token_tile) * tiling.tokens;
    tile.n_tokens = std::min(tiling.tokens, slice.n_tokens - tile.first_token);
    TileAttention(context.kernels, kv, page_floats, call, w.scores.of(thread),
                  w.products.of(thread).matmul)
        .Run(tile);
  });
}

}  // namespace colibri
