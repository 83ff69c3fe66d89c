// model/moe_route.h - the first job of a layer with experts: from the tokens' residuals to the
// slots of the experts' rows.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/execution_context.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace colibri {

// Prepares, routes and groups the tokens of a step in one job of the pool: its steps hand over by
// counters (platform/countdown.h), not by the pool's barrier. Tokens go through it in runs, their
// logits in blocks of whole runs; neither shows in the results.
class RouteJob {
 public:
  // Reads `normed`, writes w.router_logits, w.expert, w.weight, w.shared_weight, w.slot_weight and
  // w.plan; sets w.not_finite for a token whose logits are not numbers. Arguments must outlive it.
  RouteJob(ExecutionContext& context, const FfnPlan& plan, const MoeWeights& weights,
           const Activations& normed, int32_t n_tokens, Workspace& w);

  // Runs it. prepare(token, thread) comes first for each token and leaves its row of `normed`.
  template <typename F>
  void Run(F&& prepare) {
    ResetCounters();
    context_.pool.ParallelFor(n_tasks(), [&](int64_t task, int thread) {
      if (task >= n_runs_) return RunTask(task - n_runs_, thread);
      const auto run = static_cast<int32_t>(task);
      for (int32_t t = FirstOfRun(run); t < FirstOfRun(run + 1); ++t) prepare(t, thread);
      EndPrepare(run);
    });
  }

  // Runs of a step, at most: room that the workspace must have for counters and counts.
  static int32_t MostRuns(int n_threads) { return 4 * n_threads; }

 private:
  void ResetCounters();
  int64_t n_tasks() const;
  void EndPrepare(int32_t run);
  void RunTask(int64_t task, int thread);
  void ComputeLogits(int32_t block, int32_t piece, int thread);
  void RouteRun(int32_t run, int thread);
  void ScatterRun(int32_t run);
  int32_t FirstOfRun(int32_t run) const;
  int32_t BlockOf(int32_t run) const { return run / block_runs_; }

  ExecutionContext& context_;
  const FfnPlan& plan_;
  const MoeWeights& weights_;
  const Activations normed_;
  const int32_t n_tokens_;
  Workspace& w_;
  int32_t run_tokens_ = 0;
  int32_t n_runs_ = 0;
  int32_t block_runs_ = 0;
  int32_t n_blocks_ = 0;
  int32_t piece_rows_ = 0;  // rows of the router in a task
  int32_t n_pieces_ = 0;    // of a block, the shared expert's gate behind the router's
};

}  // namespace colibri
