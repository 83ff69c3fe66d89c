#include "model/moe_route.h"

#include <algorithm>
#include <cmath>

#include "moe/routing.h"

namespace colibri {
namespace {

int32_t CeilDiv(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

}  // namespace

RouteJob::RouteJob(ExecutionContext& context, const FfnPlan& plan, const MoeWeights& weights,
                   const Activations& normed, int32_t n_tokens, Workspace& w)
    : context_(context),
      plan_(plan),
      weights_(weights),
      normed_(normed),
      n_tokens_(n_tokens),
      w_(w) {
  const int n_threads = context.pool.n_threads();
  run_tokens_ = CeilDiv(n_tokens, MostRuns(n_threads));
  n_runs_ = CeilDiv(n_tokens, run_tokens_);
  // As many tokens as the kernel takes at once, so that the router's matrix is read no oftener.
  block_runs_ = CeilDiv(kMatMulTokenBlock, run_tokens_);
  n_blocks_ = CeilDiv(n_runs_, block_runs_);
  // Where blocks are few, their rows are cut finer. Panels are not cut.
  const int32_t least = weights.router.layout == Layout::kPanels ? kPanelRows : 8;
  const int32_t wanted = CeilDiv(2 * n_threads, n_blocks_);
  piece_rows_ =
      std::clamp(CeilDiv(CeilDiv(weights.router.rows, wanted), least) * least, least, kTaskRows);
  n_pieces_ = CeilDiv(weights.router.rows, piece_rows_) + (weights.shared_gate.empty() ? 0 : 1);
}

int32_t RouteJob::FirstOfRun(int32_t run) const {
  return std::min(run * run_tokens_, n_tokens_);
}

// Runs to prepare; the pieces of each block's logits; runs to route and count; and where there are
// several, runs to give their slots, between which and the counts the whole is summed once. A task
// waits for tasks before it alone.
int64_t RouteJob::n_tasks() const {
  const int64_t n_logits = static_cast<int64_t>(n_blocks_) * n_pieces_;
  return n_runs_ + n_logits + (n_runs_ > 1 ? 2 * n_runs_ : 1);
}

void RouteJob::ResetCounters() {
  w_.plan.Begin(n_tokens_, plan_.router.n_selected, plan_.router.n_experts, run_tokens_);
  for (int32_t b = 0; b < n_blocks_; ++b) {
    const auto at = static_cast<size_t>(b);
    w_.route->runs_to_prepare[at].Reset(std::min(block_runs_, n_runs_ - b * block_runs_));
    w_.route->pieces_to_compute[at].Reset(n_pieces_);
  }
  w_.route->runs_to_count.Reset(n_runs_);
  w_.route->plans_to_sum.Reset(1);
}

void RouteJob::EndPrepare(int32_t run) {
  (void)w_.route->runs_to_prepare[static_cast<size_t>(BlockOf(run))].CountDown();
}

void RouteJob::RunTask(int64_t task, int thread) {
  const int64_t n_logits = static_cast<int64_t>(n_blocks_) * n_pieces_;
  if (task < n_logits) {
    const auto block = static_cast<int32_t>(task / n_pieces_);
    w_.route->runs_to_prepare[static_cast<size_t>(block)].Wait();
    ComputeLogits(block, static_cast<int32_t>(task % n_pieces_), thread);
    (void)w_.route->pieces_to_compute[static_cast<size_t>(block)].CountDown();
    return;
  }
  const auto run = static_cast<int32_t>(task - n_logits);
  if (run >= n_runs_) {
    w_.route->plans_to_sum.Wait();
    return ScatterRun(run - n_runs_);
  }
  w_.route->pieces_to_compute[static_cast<size_t>(BlockOf(run))].Wait();
  RouteRun(run, thread);
  if (!w_.route->runs_to_count.CountDown()) return;
  w_.plan.Sum();
  (void)w_.route->plans_to_sum.CountDown();
  if (n_runs_ == 1) ScatterRun(0);
}

void RouteJob::ComputeLogits(int32_t block, int32_t piece, int thread) {
  const int32_t first = FirstOfRun(block * block_runs_), first_row = piece * piece_rows_;
  const bool is_gate = first_row >= weights_.router.rows;
  ProductArgs args;
  args.w = is_gate ? &weights_.shared_gate : &weights_.router;
  args.first_row = is_gate ? 0 : first_row;
  args.n_rows = std::min(piece_rows_, args.w->rows - args.first_row);
  args.x = normed_.From(first);
  args.n_tokens = FirstOfRun((block + 1) * block_runs_) - first;
  args.out_stride = is_gate ? 1 : static_cast<size_t>(plan_.router.n_experts);
  args.out = (is_gate ? w_.shared_weight : w_.router_logits) +
             static_cast<size_t>(first) * args.out_stride + args.first_row;
  const float* const bias = is_gate ? nullptr : weights_.router_bias;
  args.bias = bias == nullptr ? nullptr : bias + first_row;
  Multiply(context_.kernels, args, w_.products.of(thread));
}

void RouteJob::RouteRun(int32_t run, int thread) {
  const RouterSpec& router = plan_.router;
  const auto n_experts = static_cast<size_t>(router.n_experts),
             k = static_cast<size_t>(router.n_selected);
  for (int32_t t = FirstOfRun(run); t < FirstOfRun(run + 1); ++t) {
    const auto row = static_cast<size_t>(t);
    const bool routed =
        RouteToken(router, w_.router_logits + row * n_experts, weights_.selection_bias,
                   w_.router.of(thread), w_.expert + row * k, w_.weight + row * k);
    float& shared = w_.shared_weight[t];
    // Behind the sigmoid an infinity would be a number.
    const bool gated = weights_.shared_gate.empty() || std::isfinite(shared);
    if (!routed || !gated) w_.not_finite[t] = 1;
    shared = weights_.shared_gate.empty() ? 1.0f : 1.0f / (1.0f + std::exp(-shared));
  }
  w_.plan.Count(run, {w_.expert, static_cast<size_t>(n_tokens_) * k});
}

void RouteJob::ScatterRun(int32_t run) {
  const auto k = static_cast<size_t>(plan_.router.n_selected);
  w_.plan.Scatter(run, {w_.expert, static_cast<size_t>(n_tokens_) * k});
  const std::span<const int32_t> slots = w_.plan.slot_of_choice();
  const size_t end = static_cast<size_t>(FirstOfRun(run + 1)) * k;
  for (size_t i = static_cast<size_t>(FirstOfRun(run)) * k; i < end; ++i)
    w_.slot_weight[slots[i]] = w_.weight[i];
}

}  // namespace colibri
