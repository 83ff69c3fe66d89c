// Multi-head latent attention in its absorbed form: queries are brought into the latent space, so
// the cache holds one latent row a position and all heads read the same keys. The same arithmetic
// serves prefill and decode: guarantee 1 allows no second form.
#include <algorithm>
#include <array>

#include "model/failure_probe.h"
#include "model/linear.h"
#include "model/mixer/attention.h"
#include "model/mixer/mixer.h"

namespace colibri {
namespace {

// transformers gives the norms of the low-rank forms its default epsilon, whatever the
// configuration says of the others.
constexpr float kLatentNormEps = 1e-6f;

void ComputeQueries(ExecutionContext& context, const MixerCall& call, Workspace& w) {
  const AttentionPlan& plan = call.plan;
  const AttentionWeights& weights = call.weights;
  const auto n_tokens = static_cast<int32_t>(call.batch.tokens.size());
  const auto q_floats = static_cast<size_t>(plan.n_heads) * static_cast<size_t>(plan.head_dim);
  const auto rank = static_cast<size_t>(plan.q_lora_rank);
  const Activations normed = w.NormedRows(call.hidden);
  const LinearJob latent = {&weights.kv_a, normed, nullptr, w.kv, call.layout.k_floats()};
  if (plan.q_lora_rank == 0) {
    const std::array<LinearJob, 2> jobs = {{{&weights.q, normed, nullptr, w.q, q_floats}, latent}};
    return ComputeLinear(context, jobs, n_tokens, w.products);
  }
  const std::array<LinearJob, 2> low = {
      {{&weights.q_a, normed, nullptr, w.q_latent, rank}, latent}};
  ComputeLinear(context, low, n_tokens, w.products);
  ForEachToken(context.pool, n_tokens, [&](int32_t t, int) {
    float* row = w.q_latent + static_cast<size_t>(t) * rank;
    context.kernels.rms_norm(row, weights.q_a_norm, kLatentNormEps, rank, row);
  });
  if (context.probe != nullptr)
    context.probe->LookAtNorm({weights.q_a_norm, nullptr}, w.q_latent, n_tokens, rank, rank);
  const Activations low_rows =
      PrepareInput(context, weights.q.matrix, w.q_latent, rank, n_tokens, w.mixer_input);
  const std::array<LinearJob, 1> high = {{{&weights.q, low_rows, nullptr, w.q, q_floats}}};
  ComputeLinear(context, high, n_tokens, w.products);
}

}  // namespace

void MixMla(ExecutionContext& context, const MixerCall& call, Workspace& w) {
  const AttentionPlan& plan = call.plan;
  const AttentionWeights& weights = call.weights;
  const auto n_tokens = static_cast<int32_t>(call.batch.tokens.size());
  const auto heads = static_cast<size_t>(plan.n_heads),
             head_dim = static_cast<size_t>(plan.head_dim),
             nope = static_cast<size_t>(plan.nope_dim);
  const auto rope = static_cast<size_t>(plan.rope_dim),
             lora = static_cast<size_t>(plan.kv_lora_rank),
             value = static_cast<size_t>(plan.v_head_dim);
  const size_t key = lora + rope;  // a row of the cache

  ComputeQueries(context, call, w);

  ForEachToken(context.pool, n_tokens, [&](int32_t t, int) {
    float* row = w.kv + static_cast<size_t>(t) * key;
    context.kernels.rms_norm(row, weights.kv_a_norm, kLatentNormEps, lora, row);
    RotateHead(call, t, row + lora);
    if (!StoreRows(context.kernels, call.kv, call.layout, SliceOf(call, w, t), w.position[t], row,
                   nullptr))
      w.not_finite[t] = 1;
    for (size_t h = 0; h < heads; ++h) {
      float* turned = w.q + (static_cast<size_t>(t) * heads + h) * head_dim + nope;
      RotateHead(call, t, turned);
      std::copy_n(turned, rope, w.q_absorbed + (static_cast<size_t>(t) * heads + h) * key + lora);
    }
  });

  if (context.probe != nullptr) {
    context.probe->LookAtNorm({weights.kv_a_norm, nullptr}, w.kv, n_tokens, key, lora);
    context.probe->LookAtCached(weights.kv_a, w.kv, n_tokens, key, key,
                                KvTypeLimit(call.kv.layout->type));
  }

  w.jobs.clear();
  for (size_t h = 0; h < heads; ++h) {
    w.jobs.push_back({&weights.k_b[h],
                      {w.q + h * head_dim, heads * head_dim},
                      nullptr,
                      w.q_absorbed + h * key,
                      heads * key});
  }
  ComputeLinear(context, w.jobs, n_tokens, w.products);

  AttentionCall attention;
  attention.q = w.q_absorbed;    // [n_tokens, n_heads, kv_lora_rank + rope_dim]
  attention.out = w.latent_out;  // [n_tokens, n_heads, kv_lora_rank]
  attention.n_heads = plan.n_heads;
  attention.scale = plan.scale;
  attention.window = plan.window;
  attention.layout = call.layout;
  Attend(context, call.batch, call.kv, attention, w);
  if (context.probe != nullptr)
    context.probe->LookAtAttention(attention, n_tokens, heads * lora, weights.q, weights.kv_a);

  w.jobs.clear();
  for (size_t h = 0; h < heads; ++h) {
    w.jobs.push_back({&weights.v_b[h],
                      {w.latent_out + h * lora, heads * lora},
                      nullptr,
                      w.attention + h * value,
                      heads * value});
  }
  ComputeLinear(context, w.jobs, n_tokens, w.products);

  const Activations attended =
      PrepareInput(context, weights.o.matrix, w.attention, heads * value, n_tokens, w.mixer_input);
  const std::array<LinearJob, 1> output = {
      {{&weights.o, attended, nullptr, w.block_out, static_cast<size_t>(call.hidden)}}};
  ComputeLinear(context, output, n_tokens, w.products);
}

}  // namespace colibri
