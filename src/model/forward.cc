#include "model/forward.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/finite.h"
#include "base/strings.h"
#include "model/failure_probe.h"
#include "model/linear.h"
#include "model/mixer/mixer.h"
#include "model/moe_route.h"
#include "model/workspace.h"

namespace colibri {

class Forward::Impl {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

 public:
  Impl(const Model& model, ExecutionContext& context, Workspace workspace, int32_t rope_context)
      : model_(model),
        config_(model.config()),
        context_(context),
        kernels_(context.kernels),
        w_(std::move(workspace)) {
    for (const RopeSpec& rope : config_.ropes) {
      frequencies_.push_back(RopeInverseFrequencies(rope, rope_context));
      rope_factor_.push_back(RopeAttentionFactor(rope, rope_context));
    }
  }

  void Step(const Batch& batch, const KvStorage& kv, const ForwardOutput& output);
  FailurePlace FindFailure(const Batch& batch, const KvStorage& kv, int32_t layer);
  const ForwardStats& stats() const { return stats_; }

 private:
  // What a probe is shown of a layer beside its linear products, and of the head.
  void ProbeFfnInput(const LayerWeights& weights, int32_t n_tokens);
  void ProbeFfn(const FfnPlan& plan, const LayerWeights& weights, int32_t n_tokens);
  void ProbeHead(const Batch& batch);
  void StartBatch(const Batch& batch);
  void ComputeLayer(const Batch& batch, const KvStorage& kv, size_t layer);
  void CheckBatch(const Batch& batch, const ForwardOutput& output) const;
  void LocateTokens(const Batch& batch);
  void Embed(const Batch& batch);
  void ComputeRotations(int32_t n_tokens);
  const float* Rotation(int32_t rope, int32_t n_tokens) const;
  void Normalize(const NormWeights& norm, const InputForms& forms, int32_t n_tokens);
  void Norm(const NormWeights& norm, const float* x, float* out) const;
  void Mix(const Batch& batch, const KvStorage& kv, size_t layer);
  void FeedForwardDense(const LayerPlan& plan, const LayerWeights& weights, int32_t n_tokens);
  void FeedForwardMoe(const LayerPlan& plan, const LayerWeights& weights, int32_t n_tokens);
  void AddMixedAndNormalize(const LayerWeights& weights, int32_t token);
  void ListGroups(const FfnPlan& plan, const MoeWeights& weights, int32_t n_tokens);
  void FeedForwardGroups(const LayerPlan& plan, const LayerWeights& weights, int32_t n_tokens);
  void NormToken(const NormWeights& norm, const InputForms& forms, int32_t token);
  Activations NormedRows() const { return w_.NormedRows(config_.hidden); }
  void NoteFailures(int32_t layer, int32_t n_tokens, const ForwardOutput& output);
  void ComputeLogits(const Batch& batch, const ForwardOutput& output);
  void KeepHidden(size_t index, const float* rows, int32_t n_tokens,
                  const ForwardOutput& output) const;

  size_t hidden() const { return static_cast<size_t>(config_.hidden); }
  float* RowOf(float* rows, int32_t token) const {
    return rows + static_cast<size_t>(token) * hidden();
  }

  const Model& model_;
  const ModelConfig& config_;
  ExecutionContext& context_;
  const KernelTable& kernels_;
  Workspace w_;
  std::vector<std::vector<float>> frequencies_;  // [n_ropes, pairs]
  std::vector<float> rope_factor_;               // [n_ropes]
  ForwardStats stats_;
};

void Forward::Impl::Step(const Batch& batch, const KvStorage& kv, const ForwardOutput& output) {
  CheckBatch(batch, output);
  const auto n_tokens = static_cast<int32_t>(batch.tokens.size());
  std::fill(output.failed_layer.begin(), output.failed_layer.end(), -1);
  StartBatch(batch);
  KeepHidden(0, w_.residual, n_tokens, output);
  for (size_t l = 0; l < config_.layers.size(); ++l) {
    ComputeLayer(batch, kv, l);
    NoteFailures(static_cast<int32_t>(l), n_tokens, output);
    if (l + 1 < config_.layers.size()) KeepHidden(l + 1, w_.residual, n_tokens, output);
  }
  ComputeLogits(batch, output);
}

void Forward::Impl::StartBatch(const Batch& batch) {
  LocateTokens(batch);
  Embed(batch);
  ComputeRotations(static_cast<int32_t>(batch.tokens.size()));
}

void Forward::Impl::ComputeLayer(const Batch& batch, const KvStorage& kv, size_t layer) {
  const auto n_tokens = static_cast<int32_t>(batch.tokens.size());
  const LayerPlan& plan = config_.layers[layer];
  const LayerWeights& weights = model_.weights().layers[layer];
  Normalize(weights.attention_norm, weights.attention_input, n_tokens);
  Mix(batch, kv, layer);
  if (plan.ffn.is_moe()) {
    FeedForwardMoe(plan, weights, n_tokens);
  } else {
    FeedForwardDense(plan, weights, n_tokens);
  }
}

void Forward::Impl::CheckBatch(const Batch& batch, const ForwardOutput& output) const {
  const auto n_tokens = static_cast<int64_t>(batch.tokens.size());
  COLIBRI_CHECK(n_tokens > 0 && n_tokens <= w_.max_tokens);
  int64_t in_slices = 0;
  for (const SequenceSlice& slice : batch.slices) {
    COLIBRI_CHECK(slice.n_tokens > 0 && slice.position >= 0);
    const int64_t end = static_cast<int64_t>(slice.position) + slice.n_tokens;
    COLIBRI_CHECK(end <= w_.max_context &&
                  end <= static_cast<int64_t>(slice.pages.size()) * kPageTokens);
    in_slices += slice.n_tokens;
  }
  COLIBRI_CHECK(in_slices == n_tokens && output.failed_layer.size() == batch.slices.size());
  for (const int32_t token : batch.tokens) COLIBRI_CHECK(token >= 0 && token < config_.vocab_size);
  for (const int32_t row : batch.logit_rows) COLIBRI_CHECK(row >= 0 && row < n_tokens);
  COLIBRI_CHECK(output.logits.size() ==
                batch.logit_rows.size() * static_cast<size_t>(config_.vocab_size));
  COLIBRI_CHECK(output.layer_hidden.empty() ||
                output.layer_hidden.size() ==
                    (config_.layers.size() + 1) * static_cast<size_t>(n_tokens) * hidden());
}

void Forward::Impl::LocateTokens(const Batch& batch) {
  int32_t row = 0;
  w_.slice_row.clear();
  for (size_t s = 0; s < batch.slices.size(); ++s) {
    w_.slice_row.push_back(row);
    for (int32_t i = 0; i < batch.slices[s].n_tokens; ++i, ++row) {
      w_.slice[row] = static_cast<int32_t>(s);
      w_.position[row] = batch.slices[s].position + i;
      w_.not_finite[row] = 0;
    }
  }
}

void Forward::Impl::Embed(const Batch& batch) {
  const MatrixView& table = model_.weights().embedding;
  ForEachToken(context_.pool, static_cast<int32_t>(batch.tokens.size()), [&](int32_t t, int) {
    float* row = RowOf(w_.residual, t);
    const int32_t token = batch.tokens[static_cast<size_t>(t)];
    if (table.layout == Layout::kPanels) {
      UnpackPanelRow(table.dtype, table.row(token / kPanelRows * kPanelRows), token % kPanelRows,
                     table.cols, row);
    } else {
      kernels_.decode[static_cast<size_t>(table.dtype)](table.row(token), row, hidden());
    }
    if (config_.embedding_scale == 1.0f) return;
    for (size_t i = 0; i < hidden(); ++i) row[i] *= config_.embedding_scale;
  });
}

const float* Forward::Impl::Rotation(int32_t rope, int32_t n_tokens) const {
  const float* at = w_.cos_sin;
  for (int32_t r = 0; r < rope; ++r)
    at += static_cast<size_t>(n_tokens) * 2 * frequencies_[static_cast<size_t>(r)].size();
  return at;
}

void Forward::Impl::ComputeRotations(int32_t n_tokens) {
  ForEachToken(context_.pool, n_tokens, [&](int32_t t, int) {
    float* at = w_.cos_sin;
    for (size_t r = 0; r < frequencies_.size(); ++r) {
      const size_t pairs = frequencies_[r].size();
      float* cos = at + static_cast<size_t>(t) * 2 * pairs;
      RopeCosSin(frequencies_[r], rope_factor_[r], w_.position[t], cos, cos + pairs);
      at += static_cast<size_t>(n_tokens) * 2 * pairs;
    }
  });
}

void Forward::Impl::Norm(const NormWeights& norm, const float* x, float* out) const {
  if (config_.norm == NormKind::kLayer) {
    kernels_.layer_norm(x, norm.weight, norm.bias, config_.norm_eps, hidden(), out);
  } else {
    kernels_.rms_norm(x, norm.weight, config_.norm_eps, hidden(), out);
  }
}

void Forward::Impl::Normalize(const NormWeights& norm, const InputForms& forms, int32_t n_tokens) {
  ForEachToken(context_.pool, n_tokens, [&](int32_t t, int) { NormToken(norm, forms, t); });
  if (context_.probe != nullptr)
    context_.probe->LookAtNorm(norm, w_.normed, n_tokens, hidden(), config_.hidden);
}

// Each input of a layer is brought into its forms once, for all matrices that read it.
void Forward::Impl::NormToken(const NormWeights& norm, const InputForms& forms, int32_t token) {
  // A failed token goes on as zeros: its slice is told, and nothing that it touches can be harmed.
  if (w_.not_finite[token] != 0) std::fill_n(RowOf(w_.residual, token), hidden(), 0.0f);
  float* const row = RowOf(w_.normed, token);
  Norm(norm, RowOf(w_.residual, token), row);
  const auto t = static_cast<size_t>(token);
  const Activations all = NormedRows();
  if (forms.groups)
    kernels_.quantize_row(row, config_.hidden, w_.normed_groups + t * all.group_stride);
  if (forms.bf16) RoundInput(kernels_, row, config_.hidden, w_.normed_bf16 + t * all.bf16_stride);
}

void Forward::Impl::Mix(const Batch& batch, const KvStorage& kv, size_t layer) {
  const AttentionPlan& plan = config_.layers[layer].attention;
  const auto rope = static_cast<size_t>(std::max(plan.rope, 0));
  const bool turns = plan.rope >= 0;
  const MixerCall call{
      batch,
      kv,
      plan,
      model_.weights().layers[layer].attention,
      kv.layout->layers[layer],
      turns ? config_.ropes[rope].layout : RopeLayout::kHalf,
      turns ? static_cast<int32_t>(frequencies_[rope].size()) : 0,
      turns ? Rotation(plan.rope, static_cast<int32_t>(batch.tokens.size())) : nullptr,
      config_.norm_eps,
      config_.hidden};
  switch (plan.kind) {
    case MixerKind::kGqa:
      return MixGqa(context_, call, w_);
    case MixerKind::kMla:
      return MixMla(context_, call, w_);
  }
}

void Forward::Impl::FeedForwardDense(const LayerPlan& plan, const LayerWeights& weights,
                                     int32_t n_tokens) {
  ForEachToken(context_.pool, n_tokens, [&](int32_t t, int) { AddMixedAndNormalize(weights, t); });
  if (context_.probe != nullptr) ProbeFfnInput(weights, n_tokens);
  w_.groups.clear();
  w_.groups.push_back({&weights.ffn, nullptr, n_tokens, 0, nullptr});
  FeedForwardGroups(plan, weights, n_tokens);
}

// Three jobs of the pool: what leads to the groups, gate and up, down and the residual.
void Forward::Impl::FeedForwardMoe(const LayerPlan& plan, const LayerWeights& weights,
                                   int32_t n_tokens) {
  const uint64_t jobs_before = context_.pool.n_jobs();
  const auto start = Clock::now();
  RouteJob(context_, plan.ffn, weights.moe, NormedRows(), n_tokens, w_).Run([&](int32_t t, int) {
    AddMixedAndNormalize(weights, t);
  });
  if (context_.probe != nullptr) ProbeFfnInput(weights, n_tokens);
  ListGroups(plan.ffn, weights.moe,
             n_tokens);  // slots ordered by expert; the shared expert's rows behind them
  const auto routed = Clock::now();
  FeedForwardGroups(plan, weights, n_tokens);
  ++stats_.moe_layers;
  stats_.moe_jobs += context_.pool.n_jobs() - jobs_before;
  stats_.moe_route_s += Seconds(routed - start).count();
  stats_.moe_s += Seconds(Clock::now() - start).count();
}

// What the mixer gave, to the residual, and what feed-forward reads.
void Forward::Impl::AddMixedAndNormalize(const LayerWeights& weights, int32_t token) {
  float* const residual = RowOf(w_.residual, token);
  kernels_.axpy(config_.residual_scale, RowOf(w_.block_out, token), hidden(), residual);
  if (!AllFinite(residual, hidden())) w_.not_finite[token] = 1;
  NormToken(weights.ffn_norm, weights.ffn_input, token);
}

void Forward::Impl::FeedForwardGroups(const LayerPlan& plan, const LayerWeights& weights,
                                      int32_t n_tokens) {
  ExpertGateUp(kernels_, context_.pool, w_.groups, plan.ffn.activation, NormedRows(), w_.gated,
               w_.products);
  float* const kept = context_.probe != nullptr ? w_.block_out : nullptr;
  ExpertDown(kernels_, context_.pool, w_.groups, w_.gated, n_tokens, config_.hidden, kept, hidden(),
             w_.products, {w_.residual, config_.residual_scale, w_.not_finite});
  if (context_.probe != nullptr) ProbeFfn(plan.ffn, weights, n_tokens);
}

void Forward::Impl::ListGroups(const FfnPlan& plan, const MoeWeights& weights, int32_t n_tokens) {
  const int32_t k = plan.router.n_selected;
  w_.groups.clear();
  for (const int32_t e : w_.plan.active_experts()) {
    const int32_t first = w_.plan.first_slot(e);
    w_.groups.push_back({&weights.experts[static_cast<size_t>(e)],
                         w_.plan.token_of_slot().data() + first, w_.plan.n_tokens(e), first,
                         w_.slot_weight + first});
  }
  constexpr uint64_t kMatrices = 3;
  stats_.expert_calls += kMatrices * w_.groups.size();
  stats_.expert_calls_per_token +=
      kMatrices * static_cast<uint64_t>(n_tokens) * static_cast<uint64_t>(k);
  if (plan.shared_intermediate > 0)
    w_.groups.push_back({&weights.shared, nullptr, n_tokens, n_tokens * k, w_.shared_weight});
}

void Forward::Impl::NoteFailures(int32_t layer, int32_t n_tokens, const ForwardOutput& output) {
  if (std::memchr(w_.not_finite, 1, static_cast<size_t>(n_tokens)) == nullptr) return;
  for (int32_t t = 0; t < n_tokens; ++t) {
    int32_t& failed = output.failed_layer[static_cast<size_t>(w_.slice[t])];
    if (w_.not_finite[t] != 0 && failed < 0) failed = layer;
  }
}

void Forward::Impl::ComputeLogits(const Batch& batch, const ForwardOutput& output) {
  const auto n_tokens = static_cast<int32_t>(batch.tokens.size());
  const auto n_rows = static_cast<int32_t>(batch.logit_rows.size());
  const NormWeights& norm = model_.weights().final_norm;
  if (!output.layer_hidden.empty()) {
    Normalize(norm, model_.weights().head_input, n_tokens);
    KeepHidden(config_.layers.size(), w_.normed, n_tokens, output);
  } else {
    ForEachToken(context_.pool, n_rows, [&](int32_t r, int) {
      NormToken(norm, model_.weights().head_input, batch.logit_rows[static_cast<size_t>(r)]);
    });
  }
  if (n_rows == 0) return;
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  const std::array<LinearJob, 1> head = {{{&model_.weights().head, NormedRows(),
                                           batch.logit_rows.data(), output.logits.data(), vocab}}};
  ComputeLinear(context_, head, n_rows, w_.products);
  ForEachToken(context_.pool, n_rows, [&](int32_t r, int) {
    float* logits = output.logits.data() + static_cast<size_t>(r) * vocab;
    if (config_.logit_scale != 1.0f) {
      for (size_t i = 0; i < vocab; ++i) logits[i] *= config_.logit_scale;
    }
    if (!AllFinite(logits, vocab)) w_.not_finite[batch.logit_rows[static_cast<size_t>(r)]] = 1;
  });
  NoteFailures(config_.n_layers, n_tokens, output);
}

FailurePlace Forward::Impl::FindFailure(const Batch& batch, const KvStorage& kv, int32_t layer) {
  COLIBRI_CHECK(batch.slices.size() == 1);
  const ForwardStats stats = stats_;
  FailureProbe probe(model_.tensor_names());
  const auto n_layers = static_cast<size_t>(config_.n_layers), last = static_cast<size_t>(layer);
  StartBatch(batch);
  if (layer == 0) {
    probe.LookAtRows(StrCat("the embedding ", probe.NameOf(model_.weights().embedding.data)),
                     w_.residual, static_cast<int32_t>(batch.tokens.size()), hidden(), hidden());
  }
  for (size_t l = 0; l < n_layers && l <= last; ++l) {
    context_.probe = l == last ? &probe : nullptr;
    ComputeLayer(batch, kv, l);
  }
  if (last == n_layers) {
    context_.probe = &probe;
    ProbeHead(batch);
  }
  context_.probe = nullptr;
  stats_ = stats;
  return {probe.what(), batch.slices[0].position + std::max(probe.token(), 0)};
}

void Forward::Impl::ProbeFfnInput(const LayerWeights& weights, int32_t n_tokens) {
  FailureProbe& probe = *context_.probe;
  const MoeWeights& moe = weights.moe;
  probe.LookAtNorm(weights.ffn_norm, w_.normed, n_tokens, hidden(), config_.hidden);
  for (int32_t t = 0; t < n_tokens && !probe.found(); ++t) {
    if (w_.not_finite[t] == 0) continue;
    // What failed before the norm goes on as zeros.
    const float* const residual = RowOf(w_.residual, t);
    if (std::all_of(residual, residual + hidden(), [](float x) { return x == 0; })) {
      probe.Note(StrCat("the residual behind ", probe.NameOf(weights.attention.o.matrix.data)), t);
    } else {
      const auto n = static_cast<size_t>(moe.router.rows);
      const float* const logits = w_.router_logits + static_cast<size_t>(t) * n;
      const bool routed = AllFinite(logits, n);
      const LinearWeights gate{moe.shared_gate, nullptr}, router{moe.router, moe.router_bias};
      const bool biased = moe.selection_bias != nullptr && !AllFinite(moe.selection_bias, n);
      if (routed && biased)
        probe.Note(StrCat("the selection's bias ", probe.NameOf(moe.selection_bias)), t);
      probe.NoteProduct(routed ? gate : router, logits, t);
    }
  }
}

void Forward::Impl::ProbeFfn(const FfnPlan& plan, const LayerWeights& weights, int32_t n_tokens) {
  FailureProbe& probe = *context_.probe;
  const auto is_expert = [&](const ExpertGroup& group) {
    return group.weights != &weights.ffn && group.weights != &weights.moe.shared;
  };
  for (const ExpertGroup& group : w_.groups) {
    if (probe.found()) return;
    FfnFault fault = ProbeGateUp(kernels_, group, plan.activation, NormedRows(), w_.products);
    if (fault.step == FfnStep::kNone) fault = ProbeDown(kernels_, group, w_.gated, w_.products);
    probe.NoteFfn(fault, *group.weights,
                  is_expert(group) ? group.weights - weights.moe.experts.data() : -1);
  }
  probe.LookAtRows("the sum over the experts", w_.block_out, n_tokens, hidden(), hidden());
  probe.LookAtRows("the residual behind the feed-forward", w_.residual, n_tokens, hidden(),
                   hidden());
}

// A row at a time: all that were wanted may be more than fits.
void Forward::Impl::ProbeHead(const Batch& batch) {
  FailureProbe& probe = *context_.probe;
  const ModelWeights& weights = model_.weights();
  std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
  for (const int32_t row : batch.logit_rows) {
    if (probe.found()) return;
    NormToken(weights.final_norm, weights.head_input, row);
    // Shown as tokens of their own; found ones get their place in the batch.
    FailureProbe one(model_.tensor_names());
    one.LookAtNorm(weights.final_norm, RowOf(w_.normed, row), 1, hidden(), config_.hidden);
    context_.probe = &one;
    const std::array<LinearJob, 1> head = {
        {{&weights.head, NormedRows(), &row, logits.data(), logits.size()}}};
    ComputeLinear(context_, head, 1, w_.products);
    context_.probe = &probe;
    for (float& logit : logits) logit *= config_.logit_scale;
    one.LookAtRows("the scale of the logits", logits.data(), 1, logits.size(), logits.size());
    if (one.found()) probe.Note(one.what(), row);
  }
}

void Forward::Impl::KeepHidden(size_t index, const float* rows, int32_t n_tokens,
                               const ForwardOutput& output) const {
  if (output.layer_hidden.empty()) return;
  const size_t n = static_cast<size_t>(n_tokens) * hidden();
  std::copy_n(rows, n, output.layer_hidden.data() + index * n);
}

Result<std::unique_ptr<Forward>> Forward::Create(const Model& model, ExecutionContext& context,
                                                 int32_t max_tokens, int32_t max_context,
                                                 int32_t rope_context) {
  COLIBRI_CHECK(max_tokens > 0 && max_context > 0 && rope_context >= 0);
  COLIBRI_ASSIGN_OR_RETURN(
      Workspace workspace,
      MakeWorkspace(model.config(), context.pool.n_threads(), max_tokens, max_context));
  return std::unique_ptr<Forward>(new Forward(std::make_unique<Impl>(
      model, context, std::move(workspace), rope_context > 0 ? rope_context : max_context)));
}

Forward::Forward(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
}
Forward::~Forward() = default;

void Forward::Step(const Batch& batch, const KvStorage& kv, const ForwardOutput& output) {
  impl_->Step(batch, kv, output);
}
FailurePlace Forward::FindFailure(const Batch& batch, const KvStorage& kv, int32_t layer) {
  return impl_->FindFailure(batch, kv, layer);
}
const ForwardStats& Forward::stats() const {
  return impl_->stats();
}

uint64_t Forward::ScratchBytes(const ModelConfig& config, int n_threads, int32_t max_tokens,
                               int32_t max_context) {
  return WorkspaceBytes(config, n_threads, max_tokens, max_context);
}

}  // namespace colibri
