// model/model.h - a loaded model: its configuration, the plan of each layer and the weights.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "format/model_files.h"
#include "memory/arena.h"
#include "model/config.h"
#include "model/tensor_names.h"
#include "model/weights.h"
#include "platform/thread_pool.h"

namespace colibri {

// What weights in panels are multiplied by.
enum class ActivationType : uint8_t {
  kInt8,  // quantised weights: 8 bits with a scale for each 32 (tensor/packed.h), the products of
          // integers; bfloat16 weights: bfloat16
  kBFloat16,  // bfloat16 for both: the accurate way, at half the arithmetic
  kFloat32,   // as they are: the weights are decoded
};

struct LoadOptions {
  ActivationType activations = ActivationType::kInt8;
  // The memory nodes of the pool's threads, by the system's numbers: matrices that are multiplied
  // are cut into a slice of rows for each. One or none: they lie together.
  std::vector<int32_t> system_nodes = {};
  // Called now and then while weights are read, with bytes done and bytes in all, from the calling
  // thread.
  std::function<void(uint64_t, uint64_t)> progress;
};

// Immutable once loaded: safe from many threads.
class Model {
 public:
  // Reads every weight that the family's table asks for, in the files' own types, packed into
  // panels where rounded activations will want them so. An unknown configuration value, a missing
  // required tensor, a tensor that no rule of the family uses, or a wrong shape is an error that
  // names it.
  static Result<std::unique_ptr<Model>> Load(const ModelFiles& files, ThreadPool& pool,
                                             const LoadOptions& options, const Log& log);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  // Bytes of memory that the weights take, and the bytes of them that one decoded token reads.
  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t bytes_per_token() const { return bytes_per_token_; }
  // What pages the weights lie on. Asks the system each time.
  PageUsage MeasureWeightPages() const { return arena_.MeasurePages(); }
  // Whether the system let each slice of a matrix lie on its node; true where there is one node.
  bool chose_nodes() const { return chose_nodes_; }
  const TensorNames& tensor_names() const { return tensor_names_; }

 private:
  Model() = default;
  ModelConfig config_;
  ModelWeights weights_;
  Arena arena_;
  TensorNames tensor_names_;
  bool chose_nodes_ = true;
  uint64_t weight_bytes_ = 0;
  uint64_t bytes_per_token_ = 0;
};

// What a load would take, without reading a weight: for `inspect` and for admission. Checks
// configuration and tensor table as Load does.
struct ModelPlan {
  ModelConfig config;
  uint64_t weight_bytes = 0;
  uint64_t loading_bytes = 0;  // beside the weights, of each thread while it loads
  uint64_t bytes_per_token = 0;
  uint64_t flops_per_token = 0;
  uint64_t total_parameters = 0;
  uint64_t active_parameters = 0;
};
Result<ModelPlan> PlanModel(const ModelFiles& files, const Log& log, ActivationType activations,
                            int32_t n_nodes = 1);

}  // namespace colibri
