// Which tensors a model's layers need, by the roles of its family.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "model/weight_loader.h"

namespace colibri {

Status WeightLoader::Plan(const ModelConfig& config, ModelWeights& weights) {
  requests_.clear();
  used_.clear();
  node_bytes_ = 0;
  common_bytes_ = 0;
  if (!reader_.gguf()) {
    COLIBRI_ASSIGN_OR_RETURN(attention_bias_, reader_.Flag(Field::kAttentionBias));
  }
  COLIBRI_RETURN_IF_ERROR(PlanModel(config, weights));
  weights.layers.resize(config.layers.size());
  for (int32_t l = 0; l < config.n_layers; ++l) {
    LayerWeights& layer = weights.layers[static_cast<size_t>(l)];
    COLIBRI_RETURN_IF_ERROR(TakeNorm(reader_.NameOf(Role::kAttentionNorm, l), config.hidden,
                                     config.norm, layer.attention_norm));
    COLIBRI_RETURN_IF_ERROR(
        TakeNorm(reader_.NameOf(Role::kFfnNorm, l), config.hidden, config.norm, layer.ffn_norm));
    const LayerPlan& plan = config.layers[static_cast<size_t>(l)];
    COLIBRI_RETURN_IF_ERROR(plan.attention.kind == MixerKind::kMla
                                ? PlanLatentAttention(config, l, layer.attention)
                                : PlanAttention(config, l, layer.attention));
    COLIBRI_RETURN_IF_ERROR(plan.ffn.is_moe() ? PlanMoe(config, l, layer.moe)
                                              : PlanDense(config, l, layer.ffn));
  }
  return CheckAllUsed(config);
}

Status WeightLoader::PlanModel(const ModelConfig& config, ModelWeights& weights) {
  // The embedding is looked up, and multiplied only where it is the head too.
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(reader_.NameOf(Role::kEmbedding, 0), config.vocab_size,
                                     config.hidden, weights.embedding,
                                     config.tied_embeddings ? Use::kRoundedProduct : Use::kOther));
  COLIBRI_RETURN_IF_ERROR(TakeNorm(reader_.NameOf(Role::kFinalNorm, 0), config.hidden, config.norm,
                                   weights.final_norm));
  const std::string head = reader_.NameOf(Role::kHead, 0);
  if (!config.tied_embeddings) {
    COLIBRI_RETURN_IF_ERROR(
        TakeMatrix(head, config.vocab_size, config.hidden, weights.head.matrix));
  } else if (const TensorInfo* copy = reader_.tensors().Find(head)) {
    used_.insert(copy);  // some folders store the tied matrix twice
  }
  return TakeBias(head, config.vocab_size, false, weights.head.bias);
}

Status WeightLoader::PlanAttention(const ModelConfig& config, int32_t layer,
                                   AttentionWeights& weights) {
  const AttentionPlan& plan = config.layers[static_cast<size_t>(layer)].attention;
  const int64_t q_rows = static_cast<int64_t>(plan.n_heads) * plan.head_dim,
                k_rows = static_cast<int64_t>(plan.n_kv_heads) * plan.head_dim;
  const int64_t v_rows = static_cast<int64_t>(plan.n_kv_heads) * plan.v_head_dim;
  COLIBRI_RETURN_IF_ERROR(TakeLinear(reader_.NameOf(Role::kQ, layer), q_rows, config.hidden,
                                     attention_bias_, weights.q));
  COLIBRI_RETURN_IF_ERROR(TakeLinear(reader_.NameOf(Role::kK, layer), k_rows, config.hidden,
                                     attention_bias_, weights.k));
  COLIBRI_RETURN_IF_ERROR(TakeLinear(reader_.NameOf(Role::kV, layer), v_rows, config.hidden,
                                     attention_bias_, weights.v));
  COLIBRI_RETURN_IF_ERROR(TakeLinear(reader_.NameOf(Role::kO, layer), config.hidden,
                                     static_cast<int64_t>(plan.n_heads) * plan.v_head_dim,
                                     attention_bias_ && reader_.spec().attention.output_bias,
                                     weights.o));
  if (plan.qk_norm != QkNorm::kNone) {
    const bool full = plan.qk_norm == QkNorm::kFull;
    COLIBRI_RETURN_IF_ERROR(TakeVector(reader_.NameOf(Role::kQNorm, layer),
                                       full ? q_rows : plan.head_dim, weights.q_norm));
    COLIBRI_RETURN_IF_ERROR(TakeVector(reader_.NameOf(Role::kKNorm, layer),
                                       full ? k_rows : plan.head_dim, weights.k_norm));
  }
  if (plan.has_sinks)
    COLIBRI_RETURN_IF_ERROR(
        TakeVector(reader_.NameOf(Role::kSinks, layer), plan.n_heads, weights.sinks));
  return Status();
}

Status WeightLoader::PlanLatentAttention(const ModelConfig& config, int32_t layer,
                                         AttentionWeights& weights) {
  const AttentionPlan& plan = config.layers[static_cast<size_t>(layer)].attention;
  const int64_t q_rows = static_cast<int64_t>(plan.n_heads) * plan.head_dim;
  if (plan.q_lora_rank > 0) {
    COLIBRI_RETURN_IF_ERROR(TakeLinear(reader_.NameOf(Role::kQa, layer), plan.q_lora_rank,
                                       config.hidden, attention_bias_, weights.q_a));
    COLIBRI_RETURN_IF_ERROR(
        TakeVector(reader_.NameOf(Role::kQaNorm, layer), plan.q_lora_rank, weights.q_a_norm));
    COLIBRI_RETURN_IF_ERROR(
        TakeLinear(reader_.NameOf(Role::kQb, layer), q_rows, plan.q_lora_rank, false, weights.q));
  } else {
    COLIBRI_RETURN_IF_ERROR(
        TakeLinear(reader_.NameOf(Role::kQ, layer), q_rows, config.hidden, false, weights.q));
  }
  const int64_t lora = plan.kv_lora_rank, nope = plan.nope_dim, value = plan.v_head_dim;
  COLIBRI_RETURN_IF_ERROR(TakeLinear(reader_.NameOf(Role::kKvA, layer), lora + plan.rope_dim,
                                     config.hidden, attention_bias_, weights.kv_a));
  COLIBRI_RETURN_IF_ERROR(
      TakeVector(reader_.NameOf(Role::kKvANorm, layer), lora, weights.kv_a_norm));
  COLIBRI_RETURN_IF_ERROR(TakeLinear(reader_.NameOf(Role::kO, layer), config.hidden,
                                     plan.n_heads * value, attention_bias_, weights.o));

  weights.k_b.resize(static_cast<size_t>(plan.n_heads));
  weights.v_b.resize(static_cast<size_t>(plan.n_heads));
  const auto heads = static_cast<uint64_t>(plan.n_heads);
  const TensorInfo* together = reader_.FindTensor(Role::kKvB, layer);
  if (reader_.HasTensor(Role::kKb, layer)) {
    // GGUF's split form. Files that hold both forms hold the same numbers twice.
    if (together != nullptr) used_.insert(together);
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* k_b, Take(reader_.NameOf(Role::kKb, layer),
                                                         {heads, static_cast<uint64_t>(lora),
                                                          static_cast<uint64_t>(nope)}));
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* v_b, Take(reader_.NameOf(Role::kVb, layer),
                                                         {heads, static_cast<uint64_t>(value),
                                                          static_cast<uint64_t>(lora)}));
    for (uint64_t h = 0; h < heads; ++h) {
      COLIBRI_RETURN_IF_ERROR(AddMatrix(*k_b, h * static_cast<uint64_t>(lora), lora, nope,
                                        weights.k_b[h].matrix, Use::kOther));
      COLIBRI_RETURN_IF_ERROR(AddMatrix(*v_b, h * static_cast<uint64_t>(value), value, lora,
                                        weights.v_b[h].matrix, Use::kOther));
    }
    return Status();
  }
  COLIBRI_ASSIGN_OR_RETURN(
      const TensorInfo* kv_b,
      Take(reader_.NameOf(Role::kKvB, layer),
           {heads * static_cast<uint64_t>(nope + value), static_cast<uint64_t>(lora)}));
  for (uint64_t h = 0; h < heads; ++h) {
    const uint64_t first_row = h * static_cast<uint64_t>(nope + value);
    const auto columns = static_cast<uint64_t>(lora);
    COLIBRI_RETURN_IF_ERROR(AddGathered(*kv_b, first_row * columns,
                                        static_cast<uint64_t>(nope) * columns, lora, nope, 1,
                                        columns, weights.k_b[h].matrix, Use::kOther));
    COLIBRI_RETURN_IF_ERROR(AddMatrix(*kv_b, first_row + static_cast<uint64_t>(nope), value, lora,
                                      weights.v_b[h].matrix, Use::kOther));
  }
  return Status();
}

Status WeightLoader::PlanDense(const ModelConfig& config, int32_t layer, FfnWeights& weights) {
  const int64_t size = config.layers[static_cast<size_t>(layer)].ffn.dense_intermediate;
  const std::string gate = reader_.NameOf(Role::kDenseGate, layer),
                    up = reader_.NameOf(Role::kDenseUp, layer),
                    down = reader_.NameOf(Role::kDenseDown, layer);
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(gate, size, config.hidden, weights.gate));
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(up, size, config.hidden, weights.up));
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(down, config.hidden, size, weights.down));
  COLIBRI_RETURN_IF_ERROR(TakeBias(gate, size, false, weights.gate_bias));
  COLIBRI_RETURN_IF_ERROR(TakeBias(up, size, false, weights.up_bias));
  return TakeBias(down, config.hidden, false, weights.down_bias);
}

Status WeightLoader::PlanMoe(const ModelConfig& config, int32_t layer, MoeWeights& weights) {
  const FfnPlan& plan = config.layers[static_cast<size_t>(layer)].ffn;
  const int64_t n = plan.router.n_experts;
  const std::string router_name = reader_.NameOf(Role::kRouter, layer);
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(router_name, n, config.hidden, weights.router, Use::kOther));
  COLIBRI_RETURN_IF_ERROR(TakeBias(router_name, n, false, weights.router_bias));
  if (reader_.spec().router.selection_bias) {
    const std::string name = reader_.NameOf(Role::kSelectionBias, layer);
    // GGUF writes it for those models alone that have one.
    if (!reader_.gguf() || reader_.tensors().Find(name) != nullptr)
      COLIBRI_RETURN_IF_ERROR(TakeVector(name, n, weights.selection_bias));
  }
  weights.experts.resize(static_cast<size_t>(n));
  COLIBRI_RETURN_IF_ERROR(PlanExperts(config, layer, weights));
  if (plan.shared_intermediate == 0) return Status();
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(reader_.NameOf(Role::kSharedGate, layer),
                                     plan.shared_intermediate, config.hidden, weights.shared.gate));
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(reader_.NameOf(Role::kSharedUp, layer),
                                     plan.shared_intermediate, config.hidden, weights.shared.up));
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(reader_.NameOf(Role::kSharedDown, layer), config.hidden,
                                     plan.shared_intermediate, weights.shared.down));
  COLIBRI_RETURN_IF_ERROR(TakeBias(reader_.NameOf(Role::kSharedGate, layer),
                                   plan.shared_intermediate, false, weights.shared.gate_bias));
  COLIBRI_RETURN_IF_ERROR(TakeBias(reader_.NameOf(Role::kSharedUp, layer), plan.shared_intermediate,
                                   false, weights.shared.up_bias));
  COLIBRI_RETURN_IF_ERROR(TakeBias(reader_.NameOf(Role::kSharedDown, layer), config.hidden, false,
                                   weights.shared.down_bias));
  if (!plan.shared_gate) return Status();
  const std::string gate = reader_.NameOf(Role::kSharedRouter, layer);
  const TensorInfo* tensor = reader_.tensors().Find(gate);
  // [1, hidden] or [hidden]: some GGUF files drop the leading dimension.
  if (tensor != nullptr && tensor->shape.size() == 1) {
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* vector,
                             Take(gate, {static_cast<uint64_t>(config.hidden)}));
    return AddMatrix(*vector, 0, 1, config.hidden, weights.shared_gate, Use::kOther);
  }
  return TakeMatrix(gate, 1, config.hidden, weights.shared_gate, Use::kOther);
}

Status WeightLoader::PlanExperts(const ModelConfig& config, int32_t layer, MoeWeights& weights) {
  const FfnPlan& plan = config.layers[static_cast<size_t>(layer)].ffn;
  const int64_t n = plan.router.n_experts, size = plan.expert_intermediate, hidden = config.hidden;
  if (!reader_.gguf()) {
    if (reader_.spec().experts.hf_fused != FusedExperts::kNone)
      return PlanFusedExperts(config, layer, weights);
    for (int32_t e = 0; e < n; ++e) {
      FfnWeights& expert = weights.experts[static_cast<size_t>(e)];
      COLIBRI_RETURN_IF_ERROR(
          TakeMatrix(reader_.NameOf(Role::kExpertGate, layer, e), size, hidden, expert.gate));
      COLIBRI_RETURN_IF_ERROR(
          TakeMatrix(reader_.NameOf(Role::kExpertUp, layer, e), size, hidden, expert.up));
      COLIBRI_RETURN_IF_ERROR(
          TakeMatrix(reader_.NameOf(Role::kExpertDown, layer, e), hidden, size, expert.down));
    }
    return Status();
  }
  struct Part {
    Role role, bias_role;
    MatrixView FfnWeights::*matrix;
    const float* FfnWeights::*bias;
    int64_t rows, cols;
  };
  const std::array<Part, 3> parts = {{
      {Role::kExpertGate, Role::kExpertGateBias, &FfnWeights::gate, &FfnWeights::gate_bias, size,
       hidden},
      {Role::kExpertUp, Role::kExpertUpBias, &FfnWeights::up, &FfnWeights::up_bias, size, hidden},
      {Role::kExpertDown, Role::kExpertDownBias, &FfnWeights::down, &FfnWeights::down_bias, hidden,
       size},
  }};
  for (const Part& part : parts) {
    const auto rows = static_cast<uint64_t>(part.rows);
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* all, Take(reader_.NameOf(part.role, layer),
                                                         {static_cast<uint64_t>(n), rows,
                                                          static_cast<uint64_t>(part.cols)}));
    const TensorInfo* bias = reader_.FindTensor(part.bias_role, layer);
    if (bias != nullptr)
      COLIBRI_RETURN_IF_ERROR(Take(bias->name, {static_cast<uint64_t>(n), rows}).status());
    for (uint64_t e = 0; e < static_cast<uint64_t>(n); ++e) {
      FfnWeights& expert = weights.experts[e];
      COLIBRI_RETURN_IF_ERROR(AddMatrix(*all, e * rows, part.rows, part.cols, expert.*part.matrix));
      if (bias != nullptr)
        COLIBRI_RETURN_IF_ERROR(AddVector(*bias, e * rows, rows, 1, expert.*part.bias));
    }
  }
  return Status();
}

Status WeightLoader::PlanFusedExperts(const ModelConfig& config, int32_t layer,
                                      MoeWeights& weights) {
  const FfnPlan& plan = config.layers[static_cast<size_t>(layer)].ffn;
  const auto n = static_cast<uint64_t>(plan.router.n_experts),
             size = static_cast<uint64_t>(plan.expert_intermediate),
             hidden = static_cast<uint64_t>(config.hidden);
  const std::string gate_up_name = reader_.NameOf(Role::kExpertGateUp, layer),
                    down_name = reader_.NameOf(Role::kExpertDownAll, layer);
  if (reader_.spec().experts.hf_fused == FusedExperts::kHalves) {
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* gate_up, Take(gate_up_name, {n, 2 * size, hidden}));
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* down, Take(down_name, {n, hidden, size}));
    for (uint64_t e = 0; e < n; ++e) {
      FfnWeights& expert = weights.experts[e];
      COLIBRI_RETURN_IF_ERROR(
          AddMatrix(*gate_up, e * 2 * size, plan.expert_intermediate, config.hidden, expert.gate));
      COLIBRI_RETURN_IF_ERROR(AddMatrix(*gate_up, (e * 2 + 1) * size, plan.expert_intermediate,
                                        config.hidden, expert.up));
      COLIBRI_RETURN_IF_ERROR(
          AddMatrix(*down, e * hidden, config.hidden, plan.expert_intermediate, expert.down));
    }
    return Status();
  }
  // Gate and up alternate.
  const std::string gate_up_bias_name = reader_.NameOf(Role::kExpertGateUpBias, layer),
                    down_bias_name = reader_.NameOf(Role::kExpertDownBias, layer);
  COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* gate_up_bias, Take(gate_up_bias_name, {n, 2 * size}));
  COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* down_bias, Take(down_bias_name, {n, hidden}));
  for (uint64_t e = 0; e < n; ++e) {
    FfnWeights& expert = weights.experts[e];
    COLIBRI_RETURN_IF_ERROR(AddVector(*gate_up_bias, e * 2 * size, size, 2, expert.gate_bias));
    COLIBRI_RETURN_IF_ERROR(AddVector(*gate_up_bias, e * 2 * size + 1, size, 2, expert.up_bias));
    COLIBRI_RETURN_IF_ERROR(AddVector(*down_bias, e * hidden, hidden, 1, expert.down_bias));
  }
  if (reader_.tensors().Find(gate_up_name + "_blocks") != nullptr)
    return PlanMxfp4Experts(config, layer, weights);
  COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* gate_up, Take(gate_up_name, {n, hidden, 2 * size}));
  COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* down, Take(down_name, {n, size, hidden}));
  const uint64_t in_expert = hidden * 2 * size;
  for (uint64_t e = 0; e < n; ++e) {
    FfnWeights& expert = weights.experts[e];
    for (const uint64_t which : {uint64_t{0}, uint64_t{1}}) {
      COLIBRI_RETURN_IF_ERROR(AddGathered(*gate_up, e * in_expert + which, in_expert - which,
                                          plan.expert_intermediate, config.hidden, 2, 2 * size,
                                          which == 0 ? expert.gate : expert.up));
    }
    COLIBRI_RETURN_IF_ERROR(AddGathered(*down, e * size * hidden, size * hidden, config.hidden,
                                        plan.expert_intermediate, 1, hidden, expert.down));
  }
  return Status();
}

Status WeightLoader::PlanMxfp4Experts(const ModelConfig& config, int32_t layer,
                                      MoeWeights& weights) {
  const FfnPlan& plan = config.layers[static_cast<size_t>(layer)].ffn;
  const auto n = static_cast<uint64_t>(plan.router.n_experts),
             size = static_cast<uint64_t>(plan.expert_intermediate),
             hidden = static_cast<uint64_t>(config.hidden);
  constexpr uint64_t kBlock = 32, kBlockBytes = 16;
  if (hidden % kBlock != 0 || size % kBlock != 0) {
    return Unsupported(
        StrCat("mxfp4 experts of ", size, " x ", hidden, ": both must be multiples of ", kBlock));
  }
  // rows_of: rows of the stored matrix; a destination row r is stored row first + r * step of its
  // expert.
  const auto add = [&](const std::string& name, uint64_t rows_of, uint64_t cols, uint64_t first,
                       uint64_t step, uint64_t rows, MatrixView FfnWeights::*matrix) -> Status {
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* blocks,
                             Take(name + "_blocks", {n, rows_of, cols / kBlock, kBlockBytes}));
    COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* scales,
                             Take(name + "_scales", {n, rows_of, cols / kBlock}));
    if (blocks->dtype != DType::kU8 || scales->dtype != DType::kU8)
      return CorruptData(StrCat("tensor ", blocks->name, ": mxfp4 blocks and scales must be u8"));
    for (uint64_t e = 0; e < n; ++e) {
      MatrixView& view = weights.experts[e].*matrix;
      view = MakeView(DType::kMXFP4, static_cast<int64_t>(rows), static_cast<int64_t>(cols),
                      Use::kRoundedProduct);
      Request request;
      request.source = blocks;
      request.source_offset = (e * rows_of + first) * (cols / kBlock) * kBlockBytes;
      request.source_bytes = (rows_of - first) * (cols / kBlock) * kBlockBytes;
      request.scales = scales;
      request.scales_offset = (e * rows_of + first) * (cols / kBlock);
      request.transform = Transform::kMxfp4;
      request.rows = rows;
      request.cols = cols;
      request.row_step = step;
      request.dtype = DType::kMXFP4;
      request.layout = view.layout;
      request.bytes = view.bytes();
      request.slot = &view.data;
      Push(request);
    }
    return Status();
  };
  const std::string gate_up = reader_.NameOf(Role::kExpertGateUp, layer),
                    down = reader_.NameOf(Role::kExpertDownAll, layer);
  COLIBRI_RETURN_IF_ERROR(add(gate_up, 2 * size, hidden, 0, 2, size, &FfnWeights::gate));
  COLIBRI_RETURN_IF_ERROR(add(gate_up, 2 * size, hidden, 1, 2, size, &FfnWeights::up));
  return add(down, hidden, size, 0, 1, hidden, &FfnWeights::down);
}

Status WeightLoader::CheckAllUsed(const ModelConfig& config) {
  const auto ends_with = [](std::string_view name, std::string_view end) {
    return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
  };
  COLIBRI_ASSIGN_OR_RETURN(const int32_t extra, reader_.Integer(Field::kExtraLayers, 0, 1 << 16));
  for (const TensorInfo& tensor : reader_.tensors().tensors()) {
    if (used_.count(&tensor) != 0) continue;
    const std::string_view name = tensor.name;
    // Frequencies that older folders store; they follow from the configuration.
    if (ends_with(name, "rotary_emb.inv_freq")) continue;
    // Multi-token prediction layers stand behind the last layer and take no part in plain decoding.
    const std::string_view prefix = reader_.gguf() ? "blk." : "model.layers.";
    if (name.substr(0, prefix.size()) == prefix) {
      const size_t dot = name.find('.', prefix.size());
      const auto layer = ParseInt(
          name.substr(prefix.size(), dot == std::string_view::npos ? dot : dot - prefix.size()));
      if (layer && *layer >= config.n_layers &&
          *layer < static_cast<int64_t>(config.n_layers) + extra)
        continue;
    }
    const auto begins = [&](std::string_view start) {
      return name.substr(0, start.size()) == start;
    };
    const auto& unused = reader_.spec().unused_tensors;
    if (std::any_of(unused.begin(), unused.end(), begins)) continue;
    if (name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
        name == "rope_factors_short.weight")
      continue;
    return Unsupported(StrCat("tensor ", tensor.name, " of ",
                              reader_.tensors().files()[tensor.file],
                              " is used by no rule of family ", reader_.spec().name,
                              ": the model would not be computed as it was made"));
  }
  return Status();
}

}  // namespace colibri
