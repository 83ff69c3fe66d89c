// Grouped-query attention, with or without QK norm, biases, sinks and a window.
#include <algorithm>
#include <array>

#include "model/failure_probe.h"
#include "model/linear.h"
#include "model/mixer/attention.h"
#include "model/mixer/mixer.h"

namespace colibri {
namespace {

void Clip(float limit, size_t n, float* x) {
  if (limit <= 0) return;
  for (size_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -limit, limit);
}

// Norm, clip and rotation of all heads of one token's queries or keys, in the family's order.
void PrepareHeads(const KernelTable& kernels, const MixerCall& call, int32_t token, int32_t n_heads,
                  const float* norm_weight, float* x) {
  const AttentionPlan& plan = call.plan;
  const auto head_dim = static_cast<size_t>(plan.head_dim),
             all = head_dim * static_cast<size_t>(n_heads);
  if (plan.qk_norm == QkNorm::kFull) kernels.rms_norm(x, norm_weight, call.norm_eps, all, x);
  Clip(plan.qkv_clip, all, x);
  for (int32_t h = 0; h < n_heads; ++h) {
    float* head = x + static_cast<size_t>(h) * head_dim;
    const bool per_head = plan.qk_norm == QkNorm::kPerHead;
    if (per_head && !plan.qk_norm_after_rope)
      kernels.rms_norm(head, norm_weight, call.norm_eps, head_dim, head);
    RotateHead(call, token, head);
    if (per_head && plan.qk_norm_after_rope)
      kernels.rms_norm(head, norm_weight, call.norm_eps, head_dim, head);
  }
}

}  // namespace

void MixGqa(ExecutionContext& context, const MixerCall& call, Workspace& w) {
  const AttentionPlan& plan = call.plan;
  const AttentionWeights& weights = call.weights;
  const auto n_tokens = static_cast<int32_t>(call.batch.tokens.size());
  const auto hidden = static_cast<size_t>(call.hidden);
  const auto q_floats = static_cast<size_t>(plan.n_heads) * static_cast<size_t>(plan.head_dim);
  const size_t k_floats = call.layout.k_floats(), v_floats = call.layout.v_floats(),
               kv_floats = k_floats + v_floats;

  const Activations normed = w.NormedRows(call.hidden);
  const std::array<LinearJob, 3> qkv = {{
      {&weights.q, normed, nullptr, w.q, q_floats},    // [n_tokens, n_heads, head_dim]
      {&weights.k, normed, nullptr, w.kv, kv_floats},  // [n_tokens, n_kv_heads, head_dim]
      {&weights.v, normed, nullptr, w.kv + k_floats,
       kv_floats},  // [n_tokens, n_kv_heads, v_head_dim]
  }};
  ComputeLinear(context, qkv, n_tokens, w.products);

  ForEachToken(context.pool, n_tokens, [&](int32_t t, int) {
    float* q = w.q + static_cast<size_t>(t) * q_floats;
    float* k = w.kv + static_cast<size_t>(t) * kv_floats;
    PrepareHeads(context.kernels, call, t, plan.n_heads, weights.q_norm, q);
    PrepareHeads(context.kernels, call, t, plan.n_kv_heads, weights.k_norm, k);
    Clip(plan.qkv_clip, v_floats, k + k_floats);
    if (!StoreRows(context.kernels, call.kv, call.layout, SliceOf(call, w, t), w.position[t], k,
                   k + k_floats))
      w.not_finite[t] = 1;
  });
  if (context.probe != nullptr) {
    const float limit = KvTypeLimit(call.kv.layout->type);
    context.probe->LookAtNorm({weights.q_norm, nullptr}, w.q, n_tokens, q_floats,
                              plan.n_heads * plan.head_dim);
    context.probe->LookAtNorm({weights.k_norm, nullptr}, w.kv, n_tokens, kv_floats,
                              plan.n_kv_heads * plan.head_dim);
    context.probe->LookAtCached(weights.k, w.kv, n_tokens, kv_floats, k_floats, limit);
    context.probe->LookAtCached(weights.v, w.kv + k_floats, n_tokens, kv_floats, v_floats, limit);
  }

  AttentionCall attention;
  attention.q = w.q;
  attention.out = w.attention;
  attention.n_heads = plan.n_heads;
  attention.scale = plan.scale;
  attention.window = plan.window;
  attention.sinks = weights.sinks;
  attention.layout = call.layout;
  Attend(context, call.batch, call.kv, attention, w);

  const size_t attention_floats =
      static_cast<size_t>(plan.n_heads) * static_cast<size_t>(plan.v_head_dim);
  if (context.probe != nullptr)
    context.probe->LookAtAttention(attention, n_tokens, attention_floats, weights.q, weights.k);
  const Activations attended = PrepareInput(context, weights.o.matrix, w.attention,
                                            attention_floats, n_tokens, w.mixer_input);
  const std::array<LinearJob, 1> output = {{{&weights.o, attended, nullptr, w.block_out, hidden}}};
  ComputeLinear(context, output, n_tokens, w.products);
}

}  // namespace colibri
