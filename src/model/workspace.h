// model/workspace.h - the buffers of a step, taken once for the largest batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/arena.h"
#include "model/forward.h"
#include "model/linear.h"
#include "moe/dispatch.h"
#include "moe/expert_gemm.h"
#include "platform/countdown.h"

namespace colibri {

// Sizes of a model's widest layer, in floats a token.
struct BufferSizes {
  uint64_t q = 0, kv = 0, q_latent = 0, q_absorbed = 0, attention = 0, latent_out = 0;
  uint64_t experts = 0, slots = 0, gated = 0;  // gated: the widest intermediate
  uint64_t matmul_k = 0;                       // longest row of a matrix
  uint64_t mixer_input = 0;                    // elements: a mixer's longest row of rounded input
  uint64_t attend = 0;                         // floats of a thread's attention scratch
};
BufferSizes MeasureBuffers(const ModelConfig& config);

// One thread's floats, `stride` apart.
struct ScratchPieces {
  float* data = nullptr;
  size_t stride = 0;
  float* of(int thread) const { return data + static_cast<size_t>(thread) * stride; }
};

// What later tasks of a RouteJob wait for, of each block of tokens and of all.
struct RouteCounters {
  explicit RouteCounters(size_t most_blocks)
      : runs_to_prepare(most_blocks), pieces_to_compute(most_blocks) {}
  std::vector<Countdown> runs_to_prepare, pieces_to_compute;
  Countdown runs_to_count, plans_to_sum;
};

// All of it lies in one arena. Rows of a buffer are its widest layer's; a layer uses as much of
// them as it needs.
struct Workspace {
  Arena arena;
  int32_t max_tokens = 0;
  int32_t max_context = 0;
  BufferSizes sizes;

  float* residual = nullptr;                 // [max_tokens, hidden]
  float* normed = nullptr;                   // [max_tokens, hidden]
  ActivationGroup* normed_groups = nullptr;  // [max_tokens, hidden / 32] the same, quantised
  uint16_t* normed_bf16 = nullptr;  // [max_tokens, BFloat16RowStride(hidden)] the same, rounded
  uint8_t* mixer_input = nullptr;   // [max_tokens, InputBytes(sizes.mixer_input)] what a mixer's
  // later matrices read, quantised or rounded
  float* q = nullptr;   // [max_tokens, sizes.q]
  float* kv = nullptr;  // [max_tokens, sizes.kv]         keys, values behind them; or the latent
                        // and its rotary part
  float* q_latent = nullptr;    // [max_tokens, sizes.q_latent]   queries' low-rank form
  float* q_absorbed = nullptr;  // [max_tokens, sizes.q_absorbed] queries in the latent space
  float* attention = nullptr;   // [max_tokens, sizes.attention]  heads' outputs
  float* latent_out = nullptr;  // [max_tokens, sizes.latent_out] the same before v_b
  float* block_out = nullptr;  // [max_tokens, hidden]           what attention or feed-forward adds
  float* router_logits = nullptr;  // [max_tokens, sizes.experts]
  GatedRows gated;                 // [max_tokens * (slots + 1)] rows between an expert's matrices
  float* shared_weight = nullptr;  // [max_tokens]
  float* slot_weight = nullptr;    // [max_tokens * slots] the routing weight of each slot
  float* weight = nullptr;         // [max_tokens, slots]
  int32_t* expert = nullptr;       // [max_tokens, slots]
  int32_t* position = nullptr;     // [max_tokens]
  int32_t* slice = nullptr;        // [max_tokens] the slice that a token belongs to
  uint8_t* not_finite = nullptr;   // [max_tokens]
  float* cos_sin = nullptr;        // [n_ropes, max_tokens, 2 * pairs]

  // One piece a thread.
  ThreadScratch products;
  ScratchPieces attend;  // a tile of queries
  ScratchPieces router;
  // Of all threads: answers of chunks of positions that wait to be merged.
  float* partials = nullptr;
  uint64_t partial_floats = 0;

  std::vector<ExpertGroup> groups;  // room for every expert and the shared one
  std::vector<LinearJob> jobs;      // room for every head
  // Of each slice, room for max_tokens: its first token in the batch, and attention's tiles before
  // it.
  std::vector<int32_t> slice_row;
  std::vector<int64_t> slice_task;
  // Of each tile whose chunks are computed apart: how many are still missing.
  std::vector<std::atomic<int32_t>> pending_chunks;
  std::unique_ptr<RouteCounters> route;
  DispatchPlan plan{0, 0, 0};

  // A layer's input, in the forms that it was made in.
  Activations NormedRows(int32_t hidden) const {
    const auto k = static_cast<size_t>(hidden);
    return {normed, k, normed_groups, k / kGroupColumns, normed_bf16, BFloat16RowStride(hidden)};
  }
};

// Bytes that MakeWorkspace takes.
uint64_t WorkspaceBytes(const ModelConfig& config, int n_threads, int32_t max_tokens,
                        int32_t max_context);
Result<Workspace> MakeWorkspace(const ModelConfig& config, int n_threads, int32_t max_tokens,
                                int32_t max_context);

}  // namespace colibri
