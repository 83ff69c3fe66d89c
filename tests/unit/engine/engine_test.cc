#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "chain_model.h"
#include "support/assets.h"

namespace colibri {
namespace {

using testing::ChainModel;
using testing::kA;
using testing::kChainContext;
using testing::kChainVocab;
using testing::LoadEngine;

int32_t ArgMax(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = LoadEngine(model_.path(), {.max_batch_tokens = 16, .max_sequences = 4});
    ASSERT_NE(engine_, nullptr);
  }
  SequenceId NewSequence(int32_t max_tokens) {
    auto sequence = engine_->CreateSequence(max_tokens);
    EXPECT_TRUE(sequence.ok()) << sequence.status().ToString();
    return sequence.ok() ? *sequence : -1;
  }
  Status Step(const std::vector<StepItem>& items) {
    logits_.assign(16 * kChainVocab, 0);
    results_.assign(items.size(), {});
    return engine_->Step(items, {.logits = logits_, .results = results_}).status();
  }
  std::span<const float> Row(size_t row) const {
    return std::span(logits_).subspan(row * kChainVocab, kChainVocab);
  }

  ChainModel model_{{}};
  std::unique_ptr<Engine> engine_;
  std::vector<float> logits_;
  std::vector<StepResult> results_;
};

TEST_F(EngineTest, GivesLogitsWhereTheyAreWanted) {
  const SequenceId a = NewSequence(10), b = NewSequence(10), c = NewSequence(10);
  const std::vector<int32_t> ta = {5, 6, 7}, tb = {20, 21}, tc = {40};
  ASSERT_TRUE(Step({{a, ta, LogitsWanted::kAll}, {b, tb, LogitsWanted::kNone}, {c, tc}}).ok());
  for (const StepResult& result : results_) EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(results_[0].n_logits_rows, 3);
  EXPECT_EQ(results_[1].n_logits_rows, 0);
  EXPECT_EQ(results_[2].n_logits_rows, 1);
  EXPECT_EQ(results_[2].first_logits_row, 3);
  EXPECT_EQ(results_[2].first_token_row, 5);
  EXPECT_EQ(ArgMax(Row(0)), 6);
  EXPECT_EQ(ArgMax(Row(1)), 7);
  EXPECT_EQ(ArgMax(Row(2)), 8);
  EXPECT_EQ(ArgMax(Row(3)), 41);
  EXPECT_EQ(engine_->SequenceLength(a), 3);
  EXPECT_EQ(engine_->SequenceLength(b), 2);
}

TEST_F(EngineTest, WritesTheHiddenStateOfEveryLayer) {
  const SequenceId a = NewSequence(10), b = NewSequence(10);
  const std::vector<int32_t> ta = {5, 6}, tb = {20};
  const std::vector<StepItem> items = {{a, ta}, {b, tb, LogitsWanted::kNone}};
  constexpr size_t kHidden = kChainVocab;
  std::vector<float> logits(kChainVocab), hidden(3 * 3 * kHidden + 1, -7);
  std::vector<StepResult> results(2);
  const auto summary =
      engine_->Step(items, {.logits = logits, .results = results, .layer_hidden = hidden});
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->n_tokens, 3);
  // Nothing is added on the way, so the residual stream is the embedding until the last norm.
  const std::vector<int32_t> tokens = {5, 6, 20};
  for (size_t layer = 0; layer < 3; ++layer) {
    for (size_t t = 0; t < 3; ++t) {
      for (size_t i = 0; i < kHidden; ++i) {
        const float expected = i != static_cast<size_t>(tokens[t]) ? 0.0f : layer < 2 ? 1.0f : 8.0f;
        EXPECT_NEAR(hidden[(layer * 3 + t) * kHidden + i], expected, 0.01f);
      }
    }
  }
  EXPECT_EQ(hidden.back(), -7);
}

TEST_F(EngineTest, AnItemsErrorLeavesTheOthersAlone) {
  const SequenceId a = NewSequence(10), b = NewSequence(4), c = NewSequence(10);
  const std::vector<int32_t> good = {5, 6}, outside = {5, kChainVocab}, negative = {-1};
  const std::vector<int32_t> long_one = {1, 2, 3, 4, 5};
  ASSERT_TRUE(
      Step({{a, outside}, {b, long_one}, {c, good}, {c, good}, {a, negative}, {999, good}, {a, {}}})
          .ok());
  const std::vector<std::string> messages = {"token 1 for sequence 0 has id 64, must be in [0, 64)",
                                             "holds 0 tokens of at most 4: 5 more are 1 too many",
                                             "",
                                             "stands twice in one step",
                                             "token 0 for sequence 0 has id -1",
                                             "there is no sequence 999",
                                             "no tokens for sequence 0"};
  for (size_t i = 0; i < messages.size(); ++i) {
    const Status& status = results_[i].status;
    EXPECT_EQ(status.ok(), messages[i].empty()) << i << ": " << status.ToString();
    EXPECT_NE(status.message().find(messages[i]), std::string::npos) << status.message();
  }
  EXPECT_EQ(ArgMax(Row(static_cast<size_t>(results_[2].first_logits_row))), 7);
  EXPECT_EQ(engine_->SequenceLength(a), 0);
  EXPECT_EQ(engine_->SequenceLength(b), 0);
  EXPECT_EQ(engine_->SequenceLength(c), 2);
}

TEST_F(EngineTest, AValueThatIsNotFiniteFailsItsSequenceAlone) {
  const SequenceId a = NewSequence(10), b = NewSequence(10), alone = NewSequence(10);
  const std::vector<int32_t> bad = {5, testing::kNaN, 6}, good = {20, 21};
  ASSERT_TRUE(Step({{alone, good}}).ok());
  const std::vector<float> expected(Row(0).begin(), Row(0).end());
  ASSERT_TRUE(Step({{a, bad}, {b, good}}).ok());
  EXPECT_EQ(results_[0].status.code(), StatusCode::kInternal);
  EXPECT_NE(results_[0].status.message().find("ceased to be finite in layer 0 of 2"),
            std::string::npos)
      << results_[0].status.message();
  ASSERT_TRUE(results_[1].status.ok());
  const auto row = Row(static_cast<size_t>(results_[1].first_logits_row));
  EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected);
  EXPECT_EQ(engine_->SequenceLength(a), 0);
  // It goes on from where it stood.
  ASSERT_TRUE(Step({{a, good}}).ok());
  EXPECT_TRUE(results_[0].status.ok());
  EXPECT_EQ(std::vector<float>(Row(0).begin(), Row(0).end()), expected);
}

TEST_F(EngineTest, ThreadsWaitForEachOtherThreeTimesALayerWithExperts) {
  for (const int n_threads : {2, 3}) {
    const auto engine = LoadEngine(model_.path(), {.n_threads = n_threads, .max_batch_tokens = 16});
    ASSERT_NE(engine, nullptr);
    const auto sequence = engine->CreateSequence(40);
    ASSERT_TRUE(sequence.ok());
    uint64_t layers = 0;
    for (const int32_t n_tokens : {1, 2, 16, 7}) {
      const std::vector<int32_t> tokens(static_cast<size_t>(n_tokens), 5);
      const std::vector<StepItem> items = {{*sequence, tokens, LogitsWanted::kLast}};
      std::vector<float> logits(kChainVocab);
      std::vector<StepResult> results(1);
      const uint64_t before = engine->stats().moe_jobs;
      ASSERT_TRUE(engine->Step(items, {.logits = logits, .results = results}).ok());
      layers += 2;
      EXPECT_EQ(engine->stats().moe_layers, layers);
      EXPECT_LE(engine->stats().moe_jobs - before, 2 * 3u) << n_tokens << " tokens";
    }
    EXPECT_GT(engine->stats().moe_jobs, 0u);
  }
}

TEST_F(EngineTest, AStepThatDoesNotFitChangesNothing) {
  const SequenceId a = NewSequence(20);
  const std::vector<int32_t> many(17, 5), two = {5, 6};
  Status status = Step({{a, many}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("a step of 17 tokens, at most 16"), std::string::npos);
  const std::vector<StepItem> items = {{a, two, LogitsWanted::kAll}};
  std::vector<float> small(kChainVocab);
  std::vector<StepResult> results(1);
  EXPECT_FALSE(engine_->Step(items, {.logits = small, .results = results}).ok());
  EXPECT_FALSE(engine_->Step(items, {.logits = logits_, .results = {}}).ok());
  EXPECT_EQ(engine_->SequenceLength(a), 0);
}

TEST_F(EngineTest, SequencesAreRefusedWithTheNumbers) {
  EXPECT_EQ(engine_->CreateSequence(0).status().code(), StatusCode::kInvalidArgument);
  const auto too_long = engine_->CreateSequence(kChainContext + 1);
  EXPECT_EQ(too_long.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(too_long.status().message().find("a sequence of 97 tokens, must be in [1, 96]"),
            std::string::npos);
  for (int i = 0; i < 4; ++i) NewSequence(kChainContext);
  const auto refused = engine_->CreateSequence(1);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("0 of 12 are free"), std::string::npos)
      << refused.status().message();
}

TEST_F(EngineTest, AReleasedSequenceIsGoneAndItsIdIsNotUsedAgain) {
  const SequenceId a = NewSequence(10);
  ASSERT_TRUE(engine_->ReleaseSequence(a).ok());
  EXPECT_EQ(engine_->ReleaseSequence(a).code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->TruncateSequence(a, 0).code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->SequenceLength(a), -1);
  EXPECT_EQ(engine_->SequenceCapacity(a), -1);
  const SequenceId b = NewSequence(10);
  EXPECT_NE(a, b);
  EXPECT_EQ(engine_->SequenceLength(b), 0);
  EXPECT_EQ(engine_->kv_cache().n_free_pages(), 11);
}

TEST_F(EngineTest, TruncatedSequencesGoOnFromThere) {
  const SequenceId a = NewSequence(10);
  const std::vector<int32_t> tokens = {5, 6, 7, 8}, more = {30};
  ASSERT_TRUE(Step({{a, tokens}}).ok());
  EXPECT_EQ(engine_->TruncateSequence(a, 5).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->TruncateSequence(a, -1).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(engine_->TruncateSequence(a, 2).ok());
  EXPECT_EQ(engine_->SequenceLength(a), 2);
  ASSERT_TRUE(Step({{a, more}}).ok());
  EXPECT_EQ(ArgMax(Row(0)), 31);
  EXPECT_EQ(engine_->SequenceLength(a), 3);
}

TEST(EngineOptions, AreCheckedByNameAndRange) {
  const ChainModel model({});
  const std::vector<std::pair<EngineOptions, std::string>> bad = {
      {{.n_threads = -1}, "n_threads is -1, must be in [0, 1024]"},
      {{.max_context = -5}, "max_context is -5"},
      {{.max_context = kChainContext + 1}, "max_context is 97, the model was made for 96"},
      {{.max_batch_tokens = 0}, "max_batch_tokens is 0, must be in [1,"},
      {{.max_sequences = 0}, "max_sequences is 0"},
  };
  for (const auto& [options, message] : bad) {
    const auto engine = Engine::Create(model.path(), options, {});
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(engine.status().message().find(message), std::string::npos)
        << engine.status().message();
  }
  EXPECT_FALSE(Engine::Create(model.path(), {.forced_isa = "z80"}, {}).ok());
}

TEST(EngineMemory, AModelThatDoesNotFitIsRefusedWithTheTable) {
  const ChainModel model({});
  const auto engine = Engine::Create(model.path(), {.memory_budget_bytes = 1000}, {});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), StatusCode::kResourceExhausted);
  for (const char* row : {"weights", "KV cache", "scratch", "total", "budget"}) {
    EXPECT_NE(engine.status().message().find(row), std::string::npos) << engine.status().message();
  }
}

TEST(EngineMemory, MoreSlotsThan32BitsNumberAreRefused) {
  ModelPlan model;
  model.config.layers.resize(1);
  model.config.layers[0].attention.n_heads = model.config.layers[0].attention.n_kv_heads = 1;
  model.config.layers[0].ffn.router.n_experts = model.config.layers[0].ffn.router.n_selected = 4096;
  const auto plan = PlanMemory(model, {.max_batch_tokens = 1 << 20}, {});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(plan.status().message().find("max_batch_tokens"), std::string::npos);
}

TEST(EngineMemory, TheContextShrinksToTheCacheAndSaysSo) {
  const ChainModel model({});
  std::vector<std::string> lines;
  const Log log([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  // A page holds 32 positions of 2 layers, each with keys and values of 2 heads of 16 elements.
  const uint64_t page_bytes = 2 * 2 * 2 * PanelBytes(kDefaultKvType, 16);
  const auto engine =
      Engine::Create(model.path(), {.n_threads = 1, .kv_cache_bytes = 2 * page_bytes}, log);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  EXPECT_EQ((*engine)->max_context(), 64);
  EXPECT_EQ((*engine)->memory_plan().options.rope_context, 96);
  EXPECT_EQ((*engine)->kv_cache().n_pages(), 2);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("up to 64 positions") != std::string::npos &&
           line.find("made for 96") != std::string::npos;
  }));
  const auto refused =
      Engine::Create(model.path(), {.max_context = 96, .kv_cache_bytes = 2 * page_bytes}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("less than 3 pages"), std::string::npos)
      << refused.status().message();
}

TEST(EngineTokens, TheTokensThatEndAnAnswerComeFromEverywhere) {
  const ChainModel model({.next = {},
                          .eos = "[0, 7]",
                          .generation_eos = "[7, 3]",
                          .chat_template = "{{ '<|im_start|>' }}{{ '<|im_end|>' }}"});
  const auto engine = LoadEngine(model.path());
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->eos_ids(), (std::vector<int32_t>{0, 2, 3, 7}));
  EXPECT_TRUE(engine->IsEos(7));
  EXPECT_FALSE(engine->IsEos(8));
}

TEST(EngineTokens, AModelWithoutTokenizerComputesAllTheSame) {
  const ChainModel model({.tokenizer = false});
  const auto engine = LoadEngine(model.path());
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->tokenizer(), nullptr);
  EXPECT_EQ(engine->tokenizer_status().code(), StatusCode::kNotFound);
  auto sequence = engine->CreateSequence(4);
  ASSERT_TRUE(sequence.ok());
  const std::vector<int32_t> tokens = {kA};
  const std::vector<StepItem> items = {{*sequence, tokens}};
  std::vector<float> logits(kChainVocab);
  std::vector<StepResult> results(1);
  ASSERT_TRUE(engine->Step(items, {.logits = logits, .results = results}).ok());
  EXPECT_EQ(ArgMax(logits), kA + 1);
}

TEST(EngineFiles, AMissingModelIsAnErrorThatNamesIt) {
  const auto engine = Engine::Create("/nonexistent/model.gguf", {}, {});
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.status().message().find("/nonexistent/model.gguf"), std::string::npos);
}

TEST(EngineFiles, TheDefaultModelLoads) {
  const auto engine = LoadEngine(testing::SourceDir() + "/models/nano/nano-q8_0.gguf");
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->vocab_size(), 3072);
  EXPECT_EQ(engine->max_context(), 2048);
  EXPECT_NE(engine->tokenizer(), nullptr) << engine->tokenizer_status().ToString();
  EXPECT_TRUE(engine->IsEos(2));
  const MemoryPlan& plan = engine->memory_plan();
  EXPECT_EQ(plan.n_pages, 8 * 2048 / kPageTokens);
  EXPECT_LE(engine->model().weight_bytes(), plan.weight_bytes);
  EXPECT_GT(plan.scratch_bytes, 0u);
  // Its matrices are packed: a thread reads up to 2 MiB of rows at a time, and none has more here.
  EXPECT_GT(plan.loading_bytes, uint64_t{100} << 10);
  EXPECT_LE(plan.loading_bytes, uint64_t{2} << 20);
}

TEST(EngineMemory, WhatLoadingTakesCountsWhereItIsMoreThanTheRest) {
  ModelPlan model;
  model.weight_bytes = uint64_t{1} << 30;
  model.config.layers.resize(1);
  model.config.hidden = 64;
  model.config.vocab_size = 10;
  model.config.max_positions = 64;
  model.config.layers[0].attention.n_heads = model.config.layers[0].attention.n_kv_heads = 1;
  EngineOptions options = {.n_threads = 4, .max_batch_tokens = 8, .max_sequences = 1};
  options.memory_budget_bytes = uint64_t{4} << 30;
  const auto before = PlanMemory(model, options, {});
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  model.loading_bytes = uint64_t{512} << 20;
  const auto plan = PlanMemory(model, options, {});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->loading_bytes, uint64_t{2} << 30);
  EXPECT_EQ(plan->total_bytes(), uint64_t{3} << 30);
  EXPECT_LT(before->total_bytes(), uint64_t{2} << 30);
  model.loading_bytes = uint64_t{1} << 30;
  const auto refused = PlanMemory(model, options, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("loading"), std::string::npos)
      << refused.status().message();
}

TEST(EngineStats, ABatchCallsEachActiveExpertOnce) {
  const auto engine = LoadEngine(testing::SourceDir() + "/models/nano/nano-q8_0.gguf");
  ASSERT_NE(engine, nullptr);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 64; ++i) tokens.push_back(7 * i + 3);
  auto sequence = engine->CreateSequence(64);
  ASSERT_TRUE(sequence.ok());
  const std::vector<StepItem> items = {{*sequence, tokens, LogitsWanted::kNone}};
  std::vector<StepResult> results(1);
  ASSERT_TRUE(engine->Step(items, {.logits = {}, .results = results}).ok());
  // 5 layers with 16 experts of three matrices, of which a token takes 2.
  EXPECT_LE(engine->stats().expert_calls, 5u * 16 * 3);
  EXPECT_EQ(engine->stats().expert_calls_per_token, 5u * 64 * 2 * 3);
}

}  // namespace
}  // namespace colibri
