#include "model/model.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "model/config_reader.h"
#include "model/resolve.h"
#include "model/weight_loader.h"

namespace colibri {
namespace {

// What a token touches of a model's matrices.
struct Traffic {
  uint64_t bytes = 0;
  uint64_t parameters = 0;
  void Add(const MatrixView& matrix, double share = 1) {
    bytes += static_cast<uint64_t>(share * static_cast<double>(matrix.bytes()));
    parameters += static_cast<uint64_t>(share * static_cast<double>(matrix.cols) * matrix.rows);
  }
};

void AddFfn(const FfnWeights& ffn, double share, Traffic& traffic) {
  traffic.Add(ffn.gate, share);
  traffic.Add(ffn.up, share);
  traffic.Add(ffn.down, share);
}

// All matrices, each expert counted with `expert_share` (1: what is stored; k / n_experts: what a
// token reads).
Traffic CountMatrices(const ModelConfig& config, const ModelWeights& weights, bool per_token) {
  Traffic traffic;
  if (per_token) {
    traffic.bytes += weights.embedding.row_bytes;  // one row of it
  } else {
    traffic.Add(weights.embedding);
  }
  if (config.tied_embeddings) {
    if (per_token) traffic.Add(weights.embedding);
  } else {
    traffic.Add(weights.head.matrix);
  }
  for (size_t l = 0; l < weights.layers.size(); ++l) {
    const LayerWeights& layer = weights.layers[l];
    const AttentionWeights& attention = layer.attention;
    for (const LinearWeights* linear : {&attention.q, &attention.k, &attention.v, &attention.o,
                                        &attention.q_a, &attention.kv_a}) {
      traffic.Add(linear->matrix);
    }
    for (const LinearWeights& head : attention.k_b) traffic.Add(head.matrix);
    for (const LinearWeights& head : attention.v_b) traffic.Add(head.matrix);
    AddFfn(layer.ffn, 1, traffic);
    traffic.Add(layer.moe.router);
    AddFfn(layer.moe.shared, 1, traffic);
    traffic.Add(layer.moe.shared_gate);
    const RouterSpec& router = config.layers[l].ffn.router;
    const double share = per_token && router.n_experts > 0
                             ? static_cast<double>(router.n_selected) / router.n_experts
                             : 1.0;
    for (const FfnWeights& expert : layer.moe.experts) AddFfn(expert, share, traffic);
  }
  return traffic;
}

InputForms AttentionInput(const AttentionWeights& weights) {
  InputForms forms;
  // Where queries are made in two steps, q reads the first one's answer.
  const LinearWeights& q = weights.q_a.matrix.empty() ? weights.q : weights.q_a;
  for (const LinearWeights* linear : {&q, &weights.k, &weights.v, &weights.kv_a})
    forms.Add(linear->matrix);
  return forms;
}

InputForms FfnInput(const LayerWeights& layer) {
  InputForms forms;
  const auto add = [&forms](const FfnWeights& ffn) {
    forms.Add(ffn.gate);
    forms.Add(ffn.up);
  };
  add(layer.ffn);
  add(layer.moe.shared);
  for (const FfnWeights& expert : layer.moe.experts) add(expert);
  forms.Add(layer.moe.router);
  forms.Add(layer.moe.shared_gate);
  return forms;
}

// Which forms of its inputs each layer's matrices read.
void NoteInputs(ModelWeights& weights) {
  for (LayerWeights& layer : weights.layers) {
    layer.attention_input = AttentionInput(layer.attention);
    layer.ffn_input = FfnInput(layer);
  }
  weights.head_input.Add(weights.head.matrix);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const ModelFiles& files, ThreadPool& pool,
                                           const LoadOptions& options, const Log& log) {
  COLIBRI_ASSIGN_OR_RETURN(const ArchSpec* spec, FindArchSpec(files));
  const ConfigReader reader(*spec, files);
  std::unique_ptr<Model> model(new Model());
  COLIBRI_ASSIGN_OR_RETURN(model->config_, ResolveConfig(reader, files, log));
  const auto n_nodes = static_cast<int32_t>(std::max<size_t>(options.system_nodes.size(), 1));
  COLIBRI_CHECK(n_nodes == 1 || n_nodes == pool.n_nodes());
  WeightLoader loader(reader, options.activations, n_nodes);
  COLIBRI_RETURN_IF_ERROR(loader.Plan(model->config_, model->weights_));
  model->weight_bytes_ = loader.total_bytes();
  model->bytes_per_token_ = CountMatrices(model->config_, model->weights_, true).bytes;
  COLIBRI_ASSIGN_OR_RETURN(model->arena_,
                           loader.Load(pool, options.system_nodes, options.progress));
  model->chose_nodes_ = loader.chose_nodes();
  model->tensor_names_ = loader.NamesIn(model->arena_);
  if (model->config_.tied_embeddings) model->weights_.head.matrix = model->weights_.embedding;
  NoteInputs(model->weights_);
  return model;
}

Result<ModelPlan> PlanModel(const ModelFiles& files, const Log& log, ActivationType activations,
                            int32_t n_nodes) {
  COLIBRI_ASSIGN_OR_RETURN(const ArchSpec* spec, FindArchSpec(files));
  const ConfigReader reader(*spec, files);
  ModelPlan plan;
  COLIBRI_ASSIGN_OR_RETURN(plan.config, ResolveConfig(reader, files, log));
  ModelWeights weights;
  WeightLoader loader(reader, activations, n_nodes);
  COLIBRI_RETURN_IF_ERROR(loader.Plan(plan.config, weights));
  plan.weight_bytes = loader.total_bytes();
  plan.loading_bytes = loader.transient_bytes();
  const Traffic stored = CountMatrices(plan.config, weights, false),
                token = CountMatrices(plan.config, weights, true);
  plan.bytes_per_token = token.bytes;
  plan.total_parameters = stored.parameters;
  plan.active_parameters = token.parameters;
  plan.flops_per_token = 2 * token.parameters;
  return plan;
}

}  // namespace colibri
