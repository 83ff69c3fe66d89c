// support/model_runner.h - runs a model's forward pass without an engine, for comparisons with
// references.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/model_files.h"
#include "model/forward.h"
#include "model/model.h"

namespace colibri::testing {

struct RunResult {
  std::vector<float> logits;        // [n, vocab]
  std::vector<float> layer_hidden;  // [n_layers + 1, n, hidden]
  std::vector<int32_t> greedy;      // the ids and the greedy tokens behind them
};

// A loaded model with one sequence's cache.
class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> Open(const std::string& path, int n_threads = 2);

  const ModelConfig& config() const { return model_->config(); }

  // The logits of all ids, computed in chunks of `chunk` tokens (0: whole), and n_greedy greedy
  // tokens behind them.
  RunResult Run(std::span<const int32_t> ids, int32_t chunk, int32_t n_greedy);

 private:
  ModelRunner() = default;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ExecutionContext> context_;
  std::unique_ptr<Model> model_;
};

}  // namespace colibri::testing
