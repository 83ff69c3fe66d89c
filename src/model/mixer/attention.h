// model/mixer/attention.h - softmax attention over the paged cache, shared by grouped-query and
// latent attention.
#pragma once

#include <cstdint>

#include "model/execution_context.h"
#include "model/forward.h"
#include "model/workspace.h"

namespace colibri {

struct AttentionCall {
  const float* q = nullptr;  // [n_tokens, n_heads, layout.head_dim]
  float* out = nullptr;      // [n_tokens, n_heads, layout.v_head_dim]
  int32_t n_heads = 0;
  float scale = 1;
  int32_t window = 0;            // 0: all positions
  const float* sinks = nullptr;  // [n_heads] or null
  LayerKvLayout layout;
};

// Every query attends to the positions of its own sequence up to its own. The cache must hold the
// rows of this step. Positions are taken in chunks that begin at multiples of kAttentionChunk; each
// gives a maximum, a sum and weighted values, and they are merged in order. So a query's bits
// depend on its position and on what it sees alone: neither steps nor batches nor threads show.
void Attend(ExecutionContext& context, const Batch& batch, const KvStorage& kv,
            const AttentionCall& call, Workspace& w);

// Writes a position's row of every key-value head. False where one of the values is not finite or
// too large for the cache's type: attention could hide that.
//   k  [layout.k_floats()]
//   v  [layout.v_floats()]
[[nodiscard]] bool StoreRows(const KernelTable& kernels, const KvStorage& kv,
                             const LayerKvLayout& layout, const SequenceSlice& slice,
                             int32_t position, const float* k, const float* v);

// Floats of scratch that one thread needs for a layer, and that all threads share.
uint64_t AttentionScratchFloats(const LayerKvLayout& layout);
uint64_t AttentionPartialFloats(const LayerKvLayout& layout, uint64_t n_threads);
// Tiles whose chunks may be computed apart, at most.
constexpr uint64_t MostSplitTiles(uint64_t n_threads) {
  return 4 * n_threads;
}

}  // namespace colibri
