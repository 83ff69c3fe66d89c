// model/mixer/attention.h - softmax attention over the paged cache, shared by grouped-query and
// latent attention.
#pragma once

#include <cstdint>

#include "model/execution_context.h"
#include "model/forward.h"
#include "model/workspace.h"

namespace colibri {

struct AttentionCall {
  const float* q = nullptr;  // [n_tokens, n_heads, head_dim]
  float* out = nullptr;      // [n_tokens, n_heads, v_head_dim]
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t v_head_dim = 0;
  float scale = 1;
  int32_t window = 0;            // 0: all positions
  const float* sinks = nullptr;  // [n_heads] or null
  LayerKvLayout layout;
};

// Every query attends to the positions of its own sequence up to its own. The cache must hold the
// rows of this step. For each query the order of summation follows positions alone, so neither
// chunks nor batches nor threads show in a bit.
void Attend(ExecutionContext& context, const Batch& batch, const KvStorage& kv,
            uint64_t page_floats, const AttentionCall& call, Workspace& w);

// The cache row of a position.
inline float* KvRow(const KvStorage& kv, uint64_t page_floats, const SequenceSlice& slice,
                    int32_t position, uint64_t offset, uint32_t row_floats) {
  const auto page = static_cast<uint64_t>(slice.pages[static_cast<size_t>(position / kPageTokens)]);
  return kv.pages + page * page_floats + offset +
         static_cast<uint64_t>(position % kPageTokens) * row_floats;
}

}  // namespace colibri
