#include "engine/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "chain_model.h"
#include "platform/thread_pool.h"

namespace colibri {
namespace {

using testing::ChainModel;
using testing::kA;
using testing::kChainVocab;
using testing::kNaN;
using testing::LoadEngine;

constexpr int32_t kText = 40;

// Ids that follow the chain's own order now and then.
EvaluationText SomeText(int32_t n = kText) {
  EvaluationText text;
  for (int32_t i = 0; i < n; ++i) text.ids.push_back((i * i / 3 + i) % 60);
  return text;
}

WindowPlan PlanOf(const EvaluationText& text, const WindowOptions& options) {
  auto plan = PlanWindows(text, options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? *plan : WindowPlan();
}

Status Always(int32_t) {
  return {};
}

// The chain's logits from its definition: the embedding is a unit vector, which the last norm
// scales; the head's row of the next token has 1 in that place and the others a pattern.
double ChainLogit(int32_t row, int32_t token, int32_t next) {
  const double scale = 1 / std::sqrt(1.0 / kChainVocab + 1e-5);
  const int64_t i = int64_t{row} * kChainVocab + token;
  return scale * (row == next ? 1.0 : static_cast<double>(i * 37 % 101) / 500 - 0.1);
}

double ChainLogProbability(int32_t row, int32_t token, int32_t next) {
  double sum = 0;
  for (int32_t r = 0; r < kChainVocab; ++r) sum += std::exp(ChainLogit(r, token, next));
  return ChainLogit(row, token, next) - std::log(sum);
}

int32_t After(int32_t token) {
  return (token + 1) % kChainVocab;
}

TEST(PlanWindows, LieSideBySideAndScoreTheSecondHalf) {
  const WindowPlan plan = PlanOf(SomeText(35), {.context = 8});
  EXPECT_EQ(plan.n_windows, 4);
  EXPECT_EQ(plan.step, 8);
  EXPECT_EQ(plan.first, 4);
  EXPECT_EQ(plan.n_scored_per_window(), 3);
  EXPECT_EQ(plan.n_scored(), 12);
  EXPECT_EQ(PlanOf(SomeText(35), {.context = 7}).first, 3);
  EXPECT_EQ(PlanOf(SomeText(35), {.context = 8, .max_windows = 2}).n_windows, 2);
  EXPECT_EQ(PlanOf(SomeText(35), {.context = 8, .max_windows = 9}).n_windows, 4);
}

TEST(PlanWindows, WithAStrideScoreTheLastTokensOfEach) {
  const WindowPlan plan = PlanOf(SomeText(21), {.context = 8, .stride = 3});
  EXPECT_EQ(plan.n_windows, 5);  // the last one starts at 12 and ends at 20
  EXPECT_EQ(plan.step, 3);
  EXPECT_EQ(plan.first, 4);
  EXPECT_EQ(plan.n_scored_per_window(), 3);
}

TEST(PlanWindows, PutABosInSideBySideWindowsAlone) {
  EvaluationText text = SomeText();
  text.bos = 1;
  EXPECT_EQ(PlanOf(text, {.context = 8}).bos, 1);
  EXPECT_EQ(PlanOf(text, {.context = 8, .stride = 4}).bos, std::nullopt);
  EXPECT_EQ(PlanOf(SomeText(), {.context = 8}).bos, std::nullopt);
}

TEST(PlanWindows, RefusesWhatLeavesNothingToScore) {
  const auto message = [](const EvaluationText& text, const WindowOptions& options) {
    const auto plan = PlanWindows(text, options);
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
    return plan.status().message();
  };
  EXPECT_NE(message(SomeText(7), {.context = 8}).find("7 tokens"), std::string::npos);
  EXPECT_NE(message(SomeText(), {.context = 1}).find("context"), std::string::npos);
  EXPECT_NE(message(SomeText(), {.context = 2}).find("at least 2"), std::string::npos);
  EXPECT_NE(message(SomeText(), {.context = 8, .stride = 8}).find("stride"), std::string::npos);
  EXPECT_NE(message(SomeText(), {.context = 8, .stride = -1}).find("stride"), std::string::npos);
  EXPECT_NE(message(SomeText(), {.context = 8, .max_windows = -1}).find("max_windows"),
            std::string::npos);
}

class Evaluate : public ::testing::Test {
 protected:
  static constexpr WindowOptions kWindows = {.context = 8};
  std::unique_ptr<Engine> Load(const ChainModel& model, int32_t max_batch_tokens = 512) {
    return LoadEngine(model.path(), EvaluationEngine({}, 8, max_batch_tokens));
  }
  PerplexityReport Perplexity(Engine& engine, const EvaluationText& text,
                              const WindowOptions& options) {
    auto report = MeasurePerplexity(engine, text, PlanOf(text, options), Always);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    return report.ok() ? *report : PerplexityReport();
  }
  const ChainModel chain_{{}};
  const EvaluationText text_ = SomeText();
};

TEST_F(Evaluate, PerplexityIsThatOfTheScoredTokens) {
  const auto engine = Load(chain_);
  const PerplexityReport report = Perplexity(*engine, text_, kWindows);
  std::vector<double> nll;
  for (size_t start = 0; start + 8 <= text_.ids.size(); start += 8) {
    for (size_t i = start + 5; i < start + 8; ++i) {
      const int32_t before = text_.ids[i - 1];
      nll.push_back(-ChainLogProbability(text_.ids[i], before, After(before)));
    }
  }
  ASSERT_EQ(report.n_scored, 15);
  ASSERT_EQ(nll.size(), 15u);
  double mean = 0, square = 0;
  for (const double value : nll) mean += value / 15;
  for (const double value : nll) square += (value - mean) * (value - mean) / 15;
  const double error = std::sqrt(square / 14);
  EXPECT_NEAR(report.nll.mean, mean, 1e-5);
  EXPECT_NEAR(report.nll.standard_error, error, 1e-5);
  EXPECT_NEAR(report.perplexity, std::exp(mean), 1e-3);
  EXPECT_NEAR(report.standard_error, std::exp(mean) * error, 1e-3);
  EXPECT_NEAR(report.low_95, std::exp(mean - 1.959964 * error), 1e-3);
  EXPECT_NEAR(report.high_95, std::exp(mean + 1.959964 * error), 1e-3);
}

TEST_F(Evaluate, AStrideScoresEveryTokenBehindTheFirstWindowsStartOnce) {
  const auto engine = Load(chain_);
  const PerplexityReport report = Perplexity(*engine, text_, {.context = 8, .stride = 4});
  MeanAccumulator nll;
  for (size_t i = 4; i < text_.ids.size(); ++i) {
    const int32_t before = text_.ids[i - 1];
    nll.Add(-ChainLogProbability(text_.ids[i], before, After(before)));
  }
  EXPECT_EQ(report.n_scored, 36);
  EXPECT_NEAR(report.nll.mean, nll.Result().mean, 1e-5);
}

TEST_F(Evaluate, StepsOfAnyLengthGiveTheSameBits) {
  const double whole = Perplexity(*Load(chain_), text_, kWindows).nll.mean;
  for (const int32_t max_batch_tokens : {1, 2, 3, 7}) {
    EXPECT_EQ(Perplexity(*Load(chain_, max_batch_tokens), text_, kWindows).nll.mean, whole);
  }
}

TEST_F(Evaluate, AModelIsNowhereFromItself) {
  const auto model = Load(chain_), reference = Load(chain_, 3);
  const auto report = MeasureDivergence(*model, *reference, text_, PlanOf(text_, kWindows), Always);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->divergence.mean, 0.0);
  EXPECT_EQ(report->divergence.standard_error, 0.0);
  EXPECT_EQ(report->maximum, 0.0);
  EXPECT_EQ(report->log_ratio.mean, 0.0);
  EXPECT_EQ(report->same_top.mean, 1.0);
  EXPECT_EQ(report->probability_difference_rms.mean, 0.0);
  EXPECT_EQ(report->model.nll.mean, Perplexity(*model, text_, kWindows).nll.mean);
}

TEST_F(Evaluate, DivergenceIsThatOfTheScoredPredictions) {
  const ChainModel other({.next = {{kA, kA + 5}, {10, 3}, {23, 50}, {33, 1}}});
  const auto next_of = [](int32_t token) {
    return token == kA   ? kA + 5
           : token == 10 ? 3
           : token == 23 ? 50
           : token == 33 ? 1
                         : After(token);
  };
  const auto model = Load(other), reference = Load(chain_);
  const WindowOptions options = {.context = 8, .stride = 5};
  const auto report = MeasureDivergence(*model, *reference, text_, PlanOf(text_, options), Always);
  ASSERT_TRUE(report.ok()) << report.status().ToString();

  MeanAccumulator divergence, difference, ratio;
  int64_t n_same = 0;
  double maximum = 0;
  for (size_t i = 3; i < 38; ++i) {
    const int32_t before = text_.ids[i - 1], token = text_.ids[i];
    double kl = 0;
    for (int32_t row = 0; row < kChainVocab; ++row) {
      const double base = ChainLogProbability(row, before, After(before));
      kl += std::exp(base) * (base - ChainLogProbability(row, before, next_of(before)));
    }
    const double p = ChainLogProbability(token, before, next_of(before));
    const double base = ChainLogProbability(token, before, After(before));
    divergence.Add(kl);
    ratio.Add(base - p);
    difference.Add(std::pow(std::exp(p) - std::exp(base), 2));
    n_same += next_of(before) == After(before) ? 1 : 0;
    maximum = std::max(maximum, kl);
  }
  ASSERT_EQ(divergence.count(), report->model.n_scored);
  ASSERT_LT(n_same, divergence.count());
  EXPECT_NEAR(report->divergence.mean, divergence.Result().mean, 1e-5);
  EXPECT_NEAR(report->divergence.standard_error, divergence.Result().standard_error, 1e-5);
  EXPECT_NEAR(report->maximum, maximum, 1e-4);
  EXPECT_NEAR(report->log_ratio.mean, ratio.Result().mean, 1e-5);
  EXPECT_NEAR(report->log_ratio.standard_error, ratio.Result().standard_error, 1e-5);
  EXPECT_EQ(report->same_top.mean, ShareOf(n_same, divergence.count()).mean);
  EXPECT_NEAR(report->probability_difference_rms.mean, std::sqrt(difference.Result().mean), 1e-5);
  EXPECT_NEAR(report->median, 0, 1e-6);
}

TEST_F(Evaluate, ABosIsReadInPlaceOfAWindowsFirstToken) {
  const auto engine = Load(chain_);
  EvaluationText text = text_;
  text.bos = kNaN;  // a model that reads it fails
  const auto side_by_side = MeasurePerplexity(*engine, text, PlanOf(text, kWindows), Always);
  EXPECT_EQ(side_by_side.status().code(), StatusCode::kInternal);
  text.ids[0] = kNaN;
  text.bos = 1;  // hides the first window's
  EXPECT_GT(Perplexity(*engine, text, kWindows).perplexity, 1);
}

TEST_F(Evaluate, AStopOfTheCallerEndsIt) {
  const auto engine = Load(chain_);
  int32_t last = -1;
  const auto stop = [&](int32_t n_done) -> Status {
    last = n_done;
    return n_done < 2 ? Status() : Cancelled("enough");
  };
  const auto report = MeasurePerplexity(*engine, text_, PlanOf(text_, kWindows), stop);
  EXPECT_EQ(report.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(last, 2);
  EXPECT_EQ(Perplexity(*engine, text_, kWindows).n_scored, 15);  // its sequence was given back
}

TEST_F(Evaluate, ATokenBeyondTheVocabularyIsNamed) {
  const auto engine = Load(chain_);
  EvaluationText text = text_;
  text.ids.back() = kChainVocab;
  const auto report = MeasurePerplexity(*engine, text, PlanOf(text, kWindows), Always);
  EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(report.status().message().find("token 39"), std::string::npos);
}

TEST_F(Evaluate, SpecialTokensOfATextAreText) {
  const auto engine = Load(chain_);
  const auto text = EncodeForEvaluation(*engine->tokenizer(), "ab");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->ids, (std::vector<int32_t>{kA, kA + 1}));
  EXPECT_EQ(text->bos, std::nullopt);
  const auto special = EncodeForEvaluation(*engine->tokenizer(), "a<|im_end|>");
  ASSERT_TRUE(special.ok()) << special.status().ToString();
  EXPECT_GT(special->ids.size(), 2u);
  EXPECT_EQ(std::count(special->ids.begin(), special->ids.end(), testing::kImEnd), 0);
}

TEST_F(Evaluate, TheFirstDifferenceOfTwoTokenizersIsNamed) {
  const auto engine = Load(chain_);
  const Tokenizer& tokenizer = *engine->tokenizer();
  const EvaluationText text = {.ids = {kA, kA + 1, kA + 2}};
  EXPECT_TRUE(CheckSameText(text, tokenizer, text, tokenizer).ok());
  const EvaluationText other = {.ids = {kA, kA + 3, kA + 2}};
  const Status status = CheckSameText(text, tokenizer, other, tokenizer);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("at token 1"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("token 5 (\"b\")"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("token 7 (\"d\")"), std::string::npos) << status.message();
  const EvaluationText shorter = {.ids = {kA, kA + 1}};
  EXPECT_NE(CheckSameText(text, tokenizer, shorter, tokenizer).message().find("the end"),
            std::string::npos);
  const EvaluationText with_bos = {.ids = {kA, kA + 1, kA + 2}, .bos = kA};
  EXPECT_EQ(CheckSameText(text, tokenizer, with_bos, tokenizer).code(),
            StatusCode::kInvalidArgument);
}

TEST(AdmitTogether, AddsUpWhatAllTake) {
  const ChainModel chain{{}};
  auto files = OpenModelFiles(chain.path(), Log());
  ASSERT_TRUE(files.ok());
  auto plan = PlanModel(*files, Log(), ActivationType::kInt8);
  ASSERT_TRUE(plan.ok());
  std::vector<ModelPlan> plans = {*plan, *plan};
  const std::vector<std::string> names = {"one", "two"};
  std::vector<EngineOptions> options(2, EvaluationEngine({}, 8, 512));
  ASSERT_TRUE(AdmitTogether(plans, names, options).ok());
  auto engine = Engine::Create(chain.path(), options[0], Log());
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();

  // Each alone would fit.
  const uint64_t most_of_it = AvailableMemoryBytes() / 10 * 6;
  plans[0].weight_bytes = most_of_it;
  ASSERT_TRUE(AdmitTogether(std::span(plans).first(1), std::span(names).first(1),
                            std::span(options).first(1))
                  .ok());
  plans[1].weight_bytes = most_of_it;
  const Status status = AdmitTogether(plans, names, options);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const char* part : {"one: ", "two: ", "weights", "total", "available"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace colibri
