#include "support/model_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/select.h"

namespace colibri::testing {

Result<std::unique_ptr<ModelRunner>> ModelRunner::Open(const std::string& path, int n_threads) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner());
  COLIBRI_ASSIGN_OR_RETURN(const KernelTable* kernels, SelectKernelsFromEnvironment());
  COLIBRI_ASSIGN_OR_RETURN(runner->pool_, ThreadPool::Create(n_threads));
  runner->context_ = std::make_unique<ExecutionContext>(ExecutionContext{*runner->pool_, *kernels});
  COLIBRI_ASSIGN_OR_RETURN(const ModelFiles files, OpenModelFiles(path, Log()));
  COLIBRI_ASSIGN_OR_RETURN(
      runner->model_,
      Model::Load(files, *runner->pool_, {.activations = ActivationType::kFloat32, .progress = {}},
                  Log()));
  return runner;
}

RunResult ModelRunner::Run(std::span<const int32_t> ids, int32_t chunk, int32_t n_greedy) {
  const auto n = static_cast<int32_t>(ids.size());
  const int32_t context = n + n_greedy;
  const auto vocab = static_cast<size_t>(config().vocab_size),
             hidden = static_cast<size_t>(config().hidden);
  const size_t n_states = config().layers.size() + 1;
  auto forward = Forward::Create(*model_, *context_, n, context);
  EXPECT_TRUE(forward.ok()) << forward.status().ToString();
  std::vector<int32_t> pages(static_cast<size_t>((context + kPageTokens - 1) / kPageTokens));
  std::iota(pages.rbegin(), pages.rend(), 0);  // out of order, as a busy pool gives them
  const KvLayout layout = MakeKvLayout(config(), KvType::kF32);
  std::vector<uint8_t> memory(pages.size() * layout.page_bytes);
  KvStorage kv;
  kv.layout = &layout;
  kv.pages = memory.data();
  kv.n_pages = static_cast<int32_t>(pages.size());

  RunResult result;
  result.greedy.assign(ids.begin(), ids.end());
  result.logits.resize(static_cast<size_t>(n) * vocab);
  result.layer_hidden.resize(n_states * static_cast<size_t>(n) * hidden);
  std::vector<float> step_hidden, step_logits(vocab);
  const auto step = [&](int32_t first, int32_t count, std::span<float> logits, bool keep_hidden) {
    std::vector<int32_t> rows(logits.size() / vocab);
    std::iota(rows.begin(), rows.end(), 0);
    SequenceSlice slice;
    slice.n_tokens = count;
    slice.position = first;
    slice.pages = pages;
    int32_t failed = -1;
    step_hidden.assign(keep_hidden ? n_states * static_cast<size_t>(count) * hidden : 0, 0.0f);
    (*forward)->Step(
        {{result.greedy.data() + first, static_cast<size_t>(count)}, {&slice, 1}, rows}, kv,
        {logits, step_hidden, {&failed, 1}});
    EXPECT_EQ(failed, -1) << "values ceased to be finite in layer " << failed;
  };
  const int32_t size = chunk == 0 ? n : chunk;
  for (int32_t first = 0; first < n; first += size) {
    const int32_t count = std::min(size, n - first);
    step(first, count,
         {result.logits.data() + static_cast<size_t>(first) * vocab,
          static_cast<size_t>(count) * vocab},
         true);
    for (size_t s = 0; s < n_states; ++s) {
      const size_t part = static_cast<size_t>(count) * hidden;
      std::copy_n(step_hidden.data() + s * part, part,
                  result.layer_hidden.data() +
                      (s * static_cast<size_t>(n) + static_cast<size_t>(first)) * hidden);
    }
  }
  const float* last = result.logits.data() + static_cast<size_t>(n - 1) * vocab;
  for (int32_t i = 0; i < n_greedy; ++i) {
    result.greedy.push_back(static_cast<int32_t>(std::max_element(last, last + vocab) - last));
    if (i + 1 == n_greedy) break;
    step(n + i, 1, step_logits, false);
    last = step_logits.data();
  }
  return result;
}

}  // namespace colibri::testing
