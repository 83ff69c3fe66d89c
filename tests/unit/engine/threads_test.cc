// The bits of a step, whatever the threads do.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/strings.h"
#include "chain_model.h"
#include "engine/engine.h"
#include "support/assets.h"

namespace colibri {
namespace {

using testing::LoadEngine;

// The logits of every token of a sequence that lives for this one step.
std::vector<float> LogitsOf(Engine& engine, const std::vector<int32_t>& tokens) {
  std::vector<float> logits(tokens.size() * static_cast<size_t>(engine.vocab_size()));
  const auto sequence = engine.CreateSequence(40);
  EXPECT_TRUE(sequence.ok());
  const std::vector<StepItem> items = {{*sequence, tokens, LogitsWanted::kAll}};
  std::vector<StepResult> results(1);
  EXPECT_TRUE(engine.Step(items, {.logits = logits, .results = results}).ok());
  EXPECT_TRUE(results[0].status.ok()) << results[0].status.message();
  EXPECT_TRUE(engine.ReleaseSequence(*sequence).ok());
  return logits;
}

// Threads change their turns from step to step: what one wrote where another writes shows in some.
TEST(Threads, GiveTheSameBitsOfEveryGoldenInEveryStep) {
  constexpr int kSteps = 12;
  const std::vector<int32_t> tokens = {5, 6, 7, 8, 9, 10, 11};
  size_t n_goldens = 0;
  for (const auto& golden :
       std::filesystem::directory_iterator(testing::SourceDir() + "/tests/golden/cases")) {
    SCOPED_TRACE(golden.path().filename().string());
    const std::string path = golden.path().string();
    for (const ActivationType activations : {ActivationType::kInt8, ActivationType::kBFloat16}) {
      const auto one =
          LoadEngine(path, {.n_threads = 1, .max_batch_tokens = 16, .activations = activations});
      const auto many =
          LoadEngine(path, {.n_threads = 3, .max_batch_tokens = 16, .activations = activations});
      ASSERT_TRUE(one != nullptr && many != nullptr);
      const std::vector<float> expected = LogitsOf(*one, tokens);
      for (int step = 0; step < kSteps; ++step) ASSERT_EQ(LogitsOf(*many, tokens), expected);
    }
    ++n_goldens;
  }
  EXPECT_GE(n_goldens, 12u);
}

}  // namespace
}  // namespace colibri
