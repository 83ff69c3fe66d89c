// A machine of several memory nodes, made up: what lies and runs where must not show in the
// results.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chain_model.h"
#include "engine/engine.h"
#include "support/assets.h"

namespace colibri {
namespace {

// n_threads CPUs, dealt to n_nodes nodes in order. Their numbers are this machine's, which may have
// fewer and surely has not so many nodes.
Topology MakeTopology(int n_threads, int n_nodes) {
  const std::vector<int32_t> allowed = AllowedCpus();
  Topology topology;
  for (int i = 0; i < n_threads; ++i) {
    topology.cpus.push_back({allowed[static_cast<size_t>(i) % allowed.size()], i,
                             static_cast<int32_t>(i * n_nodes / n_threads)});
  }
  topology.system_node.clear();
  for (int32_t node = 0; node < n_nodes; ++node) topology.system_node.push_back(node);
  return topology;
}

std::unique_ptr<Engine> LoadNano(int n_threads, int n_nodes, ActivationType activations) {
  return testing::LoadEngine(testing::SourceDir() + "/models/nano/nano-q8_0.gguf",
                             {.n_threads = n_threads,
                              .pin = PinMode::kOn,
                              .max_batch_tokens = 64,
                              .topology = MakeTopology(n_threads, n_nodes),
                              .activations = activations});
}

// The logits of a prompt's tokens and of some single ones behind it.
std::vector<float> LogitsOf(Engine& engine) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 43; ++i) tokens.push_back((37 * i + 5) % engine.vocab_size());
  const auto sequence = engine.CreateSequence(100);
  EXPECT_TRUE(sequence.ok());
  std::vector<float> all;
  for (size_t first = 0; first < tokens.size();) {
    const size_t n = first == 0 ? 40 : 1;
    std::vector<float> logits(n * static_cast<size_t>(engine.vocab_size()));
    std::vector<StepResult> results(1);
    const std::vector<StepItem> items = {
        {*sequence, std::span(tokens).subspan(first, n), LogitsWanted::kAll}};
    EXPECT_TRUE(engine.Step(items, {.logits = logits, .results = results}).ok());
    EXPECT_TRUE(results[0].status.ok()) << results[0].status.ToString();
    all.insert(all.end(), logits.begin(), logits.end());
    first += n;
  }
  return all;
}

TEST(Nodes, DoNotShowInTheResults) {
  for (const ActivationType activations : {ActivationType::kInt8, ActivationType::kFloat32}) {
    const auto one = LoadNano(2, 1, activations);
    ASSERT_NE(one, nullptr);
    const std::vector<float> expected = LogitsOf(*one);
    for (const auto& [n_threads, n_nodes] :
         std::vector<std::pair<int, int>>{{2, 2}, {4, 2}, {3, 3}, {5, 4}}) {
      const auto several = LoadNano(n_threads, n_nodes, activations);
      ASSERT_NE(several, nullptr);
      EXPECT_EQ(LogitsOf(*several), expected) << n_threads << " threads, " << n_nodes << " nodes";
    }
  }
}

TEST(Nodes, HaveASliceOfEveryMatrixThatIsMultiplied) {
  constexpr int32_t kNodes = 2;
  const auto engine = LoadNano(2, kNodes, ActivationType::kInt8);
  ASSERT_NE(engine, nullptr);
  const ModelWeights& weights = engine->model().weights();
  const LayerWeights& layer = weights.layers[1];
  for (const MatrixView* matrix :
       {&layer.attention.q.matrix, &layer.attention.o.matrix, &layer.moe.experts[3].gate,
        &layer.moe.experts[3].up, &layer.moe.experts[3].down, &weights.head.matrix}) {
    ASSERT_GT(matrix->rows, 64);
    EXPECT_EQ(matrix->slice_rows % kSliceUnit, 0);
    EXPECT_EQ(matrix->SliceBegin(0), 0);
    EXPECT_EQ(matrix->SliceEnd(0), matrix->SliceBegin(1));
    EXPECT_EQ(matrix->SliceEnd(1), matrix->rows);
    // Each node's part of the arena is whole huge pages.
    EXPECT_GE(matrix->slice_stride, uint64_t{2} << 20);
    EXPECT_EQ(matrix->slice_stride % (uint64_t{2} << 20), 0u);
    EXPECT_EQ(matrix->row(matrix->SliceBegin(1)), matrix->data + matrix->slice_stride);
  }
  EXPECT_EQ(layer.moe.router.slice_rows, 0);
  const auto one = LoadNano(2, 1, ActivationType::kInt8);
  EXPECT_EQ(one->model().weights().layers[1].moe.experts[3].gate.slice_rows, 0);
}

TEST(Nodes, ThePlanKnowsWhatTheirPartsTake) {
  const auto files = OpenModelFiles(testing::SourceDir() + "/models/nano/nano-q8_0.gguf", Log());
  ASSERT_TRUE(files.ok());
  const auto one = PlanModel(*files, Log(), ActivationType::kInt8),
             two = PlanModel(*files, Log(), ActivationType::kInt8, 2);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_GE(two->weight_bytes, one->weight_bytes);
  EXPECT_LE(two->weight_bytes, one->weight_bytes + one->weight_bytes / 4 + (uint64_t{4} << 20));
  const auto engine = LoadNano(2, 2, ActivationType::kInt8);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->model().weight_bytes(), two->weight_bytes);
}

}  // namespace
}  // namespace colibri
