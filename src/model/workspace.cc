#include "model/workspace.h"

#include <algorithm>

#include "base/strings.h"
#include "model/kv_layout.h"
#include "model/mixer/attention.h"
#include "model/moe_route.h"
#include "moe/routing.h"

namespace colibri {
namespace {

constexpr uint64_t kLine = 64;

uint64_t AlignUp(uint64_t n) {
  return (n + kLine - 1) / kLine * kLine;
}

// Hands out pieces of an arena, or only counts them where there is none.
class Carver {
 public:
  explicit Carver(uint8_t* base) : base_(base) {}
  template <typename T>
  T* Take(uint64_t n) {
    uint8_t* piece = base_ != nullptr ? base_ + used_ : nullptr;
    used_ += AlignUp(n * sizeof(T));
    return reinterpret_cast<T*>(piece);
  }
  uint64_t used() const { return used_; }

 private:
  uint8_t* base_;
  uint64_t used_ = 0;
};

uint64_t RoundFloats(uint64_t n) {
  return (n + 15) / 16 * 16;
}

uint64_t GroupsOf(uint64_t n) {
  return (n + kGroupColumns - 1) / kGroupColumns;
}

// The element type of the cache decides nothing here.
KvLayout AnyKvLayout(const ModelConfig& config) {
  return MakeKvLayout(config, KvType::kF32);
}

uint64_t PartialFloats(const ModelConfig& config, uint64_t n_threads) {
  uint64_t most = 0;
  for (const LayerKvLayout& layer : AnyKvLayout(config).layers) {
    most = std::max(most, AttentionPartialFloats(layer, n_threads));
  }
  return most;
}

uint64_t Carve(const ModelConfig& config, uint64_t n_threads, uint8_t* base, Workspace& w) {
  const auto n = static_cast<uint64_t>(w.max_tokens), hidden = static_cast<uint64_t>(config.hidden);
  const BufferSizes& s = w.sizes;
  Carver carver(base);
  w.residual = carver.Take<float>(n * hidden);
  w.normed = carver.Take<float>(n * hidden);
  w.normed_groups = carver.Take<ActivationGroup>(n * GroupsOf(hidden));
  w.normed_bf16 = carver.Take<uint16_t>(n * BFloat16RowStride(config.hidden));
  w.mixer_input = carver.Take<uint8_t>(n * InputBytes(static_cast<int32_t>(s.mixer_input)));
  w.q = carver.Take<float>(n * s.q);
  w.kv = carver.Take<float>(n * s.kv);
  w.q_latent = carver.Take<float>(n * s.q_latent);
  w.q_absorbed = carver.Take<float>(n * s.q_absorbed);
  w.attention = carver.Take<float>(n * s.attention);
  w.latent_out = carver.Take<float>(n * s.latent_out);
  w.block_out = carver.Take<float>(n * hidden);
  w.router_logits = carver.Take<float>(n * s.experts);
  w.gated.stride = GatedRows::StrideOf(static_cast<int32_t>(s.gated));
  w.gated.rows = carver.Take<float>(n * (s.slots + 1) * w.gated.stride);
  w.shared_weight = carver.Take<float>(n);
  w.slot_weight = carver.Take<float>(n * s.slots);
  w.weight = carver.Take<float>(n * s.slots);
  w.expert = carver.Take<int32_t>(n * s.slots);
  w.position = carver.Take<int32_t>(n);
  w.slice = carver.Take<int32_t>(n);
  w.not_finite = carver.Take<uint8_t>(n);
  uint64_t pairs = 0;
  for (const RopeSpec& rope : config.ropes) pairs += static_cast<uint64_t>(rope.n_rotary);
  w.cos_sin = carver.Take<float>(n * pairs);
  w.products.matmul_stride = RoundFloats(MatMulScratchFloats(static_cast<int32_t>(s.matmul_k)));
  w.products.matmul = carver.Take<float>(n_threads * w.products.matmul_stride);
  w.products.tiles = carver.Take<float>(n_threads * 3 * kTileFloats);
  w.products.answers = carver.Take<float>(n_threads * n * kTaskRows);
  w.products.answer_tokens = w.max_tokens;
  w.attend.stride = RoundFloats(s.attend);
  w.attend.data = carver.Take<float>(n_threads * w.attend.stride);
  w.partial_floats = PartialFloats(config, n_threads);
  w.partials = carver.Take<float>(w.partial_floats);
  w.router.stride = RoundFloats(2 * s.experts);
  w.router.data = carver.Take<float>(n_threads * w.router.stride);
  return carver.used();
}

}  // namespace

BufferSizes MeasureBuffers(const ModelConfig& config) {
  BufferSizes s;
  const auto grow = [](uint64_t& size, int64_t n) {
    size = std::max(size, static_cast<uint64_t>(n));
  };
  grow(s.matmul_k, config.hidden);
  for (const LayerPlan& layer : config.layers) {
    const AttentionPlan& a = layer.attention;
    const int64_t heads = a.n_heads;
    grow(s.q, heads * a.head_dim);
    grow(s.attention, heads * a.v_head_dim);
    grow(s.matmul_k, heads * a.v_head_dim);
    if (a.kind == MixerKind::kMla) {
      grow(s.kv, a.kv_lora_rank + a.rope_dim);
      grow(s.q_latent, a.q_lora_rank);
      grow(s.q_absorbed, heads * (a.kv_lora_rank + a.rope_dim));
      grow(s.latent_out, heads * a.kv_lora_rank);
      grow(s.matmul_k, std::max({a.q_lora_rank, a.kv_lora_rank + a.rope_dim, a.nope_dim}));
    } else {
      grow(s.kv, static_cast<int64_t>(a.n_kv_heads) * (a.head_dim + a.v_head_dim));
      grow(s.matmul_k, a.head_dim);
    }
    const FfnPlan& f = layer.ffn;
    grow(s.gated, std::max({f.dense_intermediate, f.expert_intermediate, f.shared_intermediate}));
    grow(s.experts, f.router.n_experts);
    grow(s.slots, f.router.n_selected);
  }
  grow(s.matmul_k, static_cast<int64_t>(s.gated));
  s.mixer_input = std::max(s.attention, s.q_latent);
  for (const LayerKvLayout& layer : AnyKvLayout(config).layers) {
    s.attend = std::max(s.attend, AttentionScratchFloats(layer));
  }
  return s;
}

uint64_t WorkspaceBytes(const ModelConfig& config, int n_threads, int32_t max_tokens,
                        int32_t max_context) {
  Workspace w;
  w.max_tokens = max_tokens;
  w.max_context = max_context;
  w.sizes = MeasureBuffers(config);
  return Carve(config, static_cast<uint64_t>(n_threads), nullptr, w);
}

Result<Workspace> MakeWorkspace(const ModelConfig& config, int n_threads, int32_t max_tokens,
                                int32_t max_context) {
  Workspace w;
  w.max_tokens = max_tokens;
  w.max_context = max_context;
  w.sizes = MeasureBuffers(config);
  const uint64_t bytes = WorkspaceBytes(config, n_threads, max_tokens, max_context);
  COLIBRI_ASSIGN_OR_RETURN(w.arena, Arena::Create(bytes));
  uint8_t* base = w.arena.Allocate(bytes, kLine);
  COLIBRI_CHECK(base != nullptr);
  Carve(config, static_cast<uint64_t>(n_threads), base, w);
  w.groups.reserve(w.sizes.experts + 1);
  uint64_t heads = 4;
  for (const LayerPlan& layer : config.layers)
    heads = std::max(heads, static_cast<uint64_t>(layer.attention.n_heads));
  w.jobs.reserve(heads);
  w.slice_row.reserve(static_cast<size_t>(max_tokens));
  w.slice_task.reserve(static_cast<size_t>(max_tokens));
  w.pending_chunks = std::vector<std::atomic<int32_t>>(
      static_cast<size_t>(MostSplitTiles(static_cast<uint64_t>(n_threads))));
  const int32_t runs = RouteJob::MostRuns(n_threads);
  w.route = std::make_unique<RouteCounters>(static_cast<size_t>(runs));
  w.plan = DispatchPlan(max_tokens, static_cast<int32_t>(w.sizes.slots),
                        static_cast<int32_t>(w.sizes.experts), runs);
  return w;
}

}  // namespace colibri
