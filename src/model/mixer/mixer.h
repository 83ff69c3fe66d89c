// model/mixer/mixer.h - what mixes positions in a layer, one function a kind.
#pragma once

#include "model/config.h"
#include "model/execution_context.h"
#include "model/forward.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace colibri {

// What a mixer of one layer works on.
struct MixerCall {
  const Batch& batch;
  const KvStorage& kv;
  const AttentionPlan& plan;
  const AttentionWeights& weights;
  const LayerKvLayout& layout;
  RopeLayout rope_layout;
  int32_t n_pairs;       // of the layer's rotation; 0: none
  const float* cos_sin;  // [n_tokens, 2 * n_pairs]: cosines, then sines
  float norm_eps;
  int32_t hidden;
};

// Both read w.NormedRows(), write this step's rows of the
// cache and leave what the layer adds in w.block_out [n_tokens, hidden].
void MixGqa(ExecutionContext& context, const MixerCall& call, Workspace& w);
void MixMla(ExecutionContext& context, const MixerCall& call, Workspace& w);

// The slice and position of each token are in w.slice and w.position.
inline const SequenceSlice& SliceOf(const MixerCall& call, const Workspace& w, int32_t token) {
  return call.batch.slices[static_cast<size_t>(w.slice[token])];
}

inline void RotateHead(const MixerCall& call, int32_t token, float* head) {
  if (call.n_pairs == 0) return;
  const float* cos =
      call.cos_sin + static_cast<size_t>(token) * 2 * static_cast<size_t>(call.n_pairs);
  ApplyRope(call.rope_layout, call.n_pairs, cos, cos + call.n_pairs, head);
}

}  // namespace colibri
