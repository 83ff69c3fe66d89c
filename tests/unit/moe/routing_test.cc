#include "moe/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace colibri {
namespace {

struct Routed {
  Status status;
  std::vector<int32_t> expert;
  std::vector<float> weight;
};

Routed RouteAll(const RouterSpec& spec, const std::vector<float>& logits,
                const std::vector<float>& bias = {}) {
  Routed out;
  const size_t n =
      logits.size() / static_cast<size_t>(spec.n_experts) * static_cast<size_t>(spec.n_selected);
  out.expert.assign(n, -1);
  out.weight.assign(n, -1);
  std::vector<float> scratch(RouterScratchFloats(spec));
  out.status = Route(spec, logits, bias, scratch, {out.expert, out.weight});
  return out;
}

RouterSpec Spec(int32_t experts, int32_t k, RouterScore score) {
  RouterSpec spec;
  spec.n_experts = experts;
  spec.n_selected = k;
  spec.score = score;
  return spec;
}

TEST(Route, TiesGoToTheLowerExpert) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid,
                                  RouterScore::kSqrtSoftplus, RouterScore::kLogit}) {
    const Routed out = RouteAll(Spec(16, 4, score), std::vector<float>(16, 0.25f));
    EXPECT_EQ(out.expert, (std::vector<int32_t>{0, 1, 2, 3}));
  }
}

TEST(Route, NanAndInfinityAreErrorsThatNameTheToken) {
  std::vector<float> logits(3 * 8, 0.0f);
  logits[2 * 8 + 5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(RouteAll(Spec(8, 2, RouterScore::kSoftmax), logits).status.message().find("token 2"),
            std::string::npos);
  logits[2 * 8 + 5] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(RouteAll(Spec(8, 2, RouterScore::kSigmoid), logits).status.ok());
}

TEST(Route, AnUnusableTokenStillHasExpertsAtWeightZero) {
  std::vector<float> logits(8, std::numeric_limits<float>::quiet_NaN()), scratch(16), weight(3, 7);
  std::vector<int32_t> expert(3, -1);
  EXPECT_FALSE(RouteToken(Spec(8, 3, RouterScore::kSoftmax), logits.data(), nullptr, scratch.data(),
                          expert.data(), weight.data()));
  EXPECT_EQ(expert, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(weight, (std::vector<float>{0, 0, 0}));
}

TEST(Route, TheCorrectionBiasSelectsAndDoesNotWeigh) {
  const RouterSpec spec = Spec(4, 2, RouterScore::kSigmoid);
  const std::vector<float> logits = {2.0f, 1.0f, -1.0f, -2.0f};
  const Routed out = RouteAll(spec, logits, {0, 0, 0, 10});
  EXPECT_EQ(out.expert, (std::vector<int32_t>{3, 0}));
  EXPECT_FLOAT_EQ(out.weight[0], 1 / (1 + std::exp(2.0f)));
}

TEST(Route, RenormalisationOfVanishingScoresStaysFinite) {
  RouterSpec spec = Spec(8, 2, RouterScore::kSigmoid);
  spec.renormalize = true;
  for (const float epsilon : {0.0f, 1e-20f}) {
    for (const float logit : {-100.0f, -1000.0f}) {
      spec.renormalize_epsilon = epsilon;
      for (const float weight : RouteAll(spec, std::vector<float>(8, logit)).weight)
        EXPECT_TRUE(std::isfinite(weight));
    }
  }
}

TEST(Route, CloseLogitsKeepTheirOrder) {
  const Routed out = RouteAll(Spec(3, 2, RouterScore::kLogit), {30.0f, 30.001f, 29.999f});
  EXPECT_EQ(out.expert, (std::vector<int32_t>{1, 0}));
}

TEST(Route, ExpertsPerTokenOutsideTheirRangeAreRefused) {
  EXPECT_FALSE(ValidateRouterSpec(Spec(8, 0, RouterScore::kSoftmax)).ok());
  EXPECT_FALSE(ValidateRouterSpec(Spec(8, 9, RouterScore::kSoftmax)).ok());
  EXPECT_TRUE(ValidateRouterSpec(Spec(8, 8, RouterScore::kSoftmax)).ok());
  RouterSpec grouped = Spec(8, 3, RouterScore::kSigmoid);
  grouped.n_groups = 4;
  EXPECT_FALSE(ValidateRouterSpec(grouped).ok()) << "one group of two experts cannot give three";
  grouped.n_groups = 3;
  EXPECT_FALSE(ValidateRouterSpec(grouped).ok()) << "three groups do not divide eight experts";
}

TEST(Route, OnlyTheBestGroupsTakePart) {
  RouterSpec spec = Spec(8, 2, RouterScore::kSigmoid);
  spec.n_groups = 4;
  spec.n_selected_groups = 1;
  const std::vector<float> logits = {5, -9, 3, 3.5f, 0, 0, 1, 1};
  spec.group_score = GroupScore::kMax;
  EXPECT_EQ(RouteAll(spec, logits).expert, (std::vector<int32_t>{0, 1}));
  spec.group_score = GroupScore::kTopTwo;
  EXPECT_EQ(RouteAll(spec, logits).expert, (std::vector<int32_t>{3, 2}));
}

TEST(Route, SoftmaxOverTheSelectedOnesLeavesTheOthersOut) {
  RouterSpec spec = Spec(4, 2, RouterScore::kLogit);
  spec.softmax_selected = true;
  const Routed out = RouteAll(spec, {1, 3, 2, 0});
  EXPECT_EQ(out.expert, (std::vector<int32_t>{1, 2}));
  EXPECT_FLOAT_EQ(out.weight[0], 1 / (1 + std::exp(-1.0f)));
  EXPECT_FLOAT_EQ(out.weight[0] + out.weight[1], 1.0f);
}

TEST(Route, TheSparseMixerWeighsAmongCloseLogits) {
  RouterSpec spec = Spec(4, 2, RouterScore::kSparseMixer);
  spec.sparse_mixer_jitter = 0.01f;
  // Of 10, 9.9, 1, 0 the first two lie within 2 %; behind the first, 9.9 stands alone.
  const Routed out = RouteAll(spec, {1, 10, 9.9f, 0});
  EXPECT_EQ(out.expert, (std::vector<int32_t>{1, 2}));
  EXPECT_NEAR(out.weight[0], 1 / (1 + std::exp(-0.1f)), 1e-6f);
  EXPECT_FLOAT_EQ(out.weight[1], 1.0f);
}

// The same by sorting all experts, for any size that models have or may have.
TEST(Route, AgreesWithSortingAtEverySize) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  for (const auto& [experts, k] : std::vector<std::pair<int32_t, int32_t>>{
           {8, 2}, {60, 4}, {64, 8}, {128, 8}, {256, 8}, {512, 22}, {896, 16}, {1024, 64}}) {
    RouterSpec spec = Spec(experts, k, RouterScore::kSigmoid);
    spec.renormalize = true;
    spec.renormalize_epsilon = 1e-20f;
    spec.scale = 2.5f;
    std::vector<float> logits(static_cast<size_t>(experts) * 5), bias(static_cast<size_t>(experts));
    for (float& value : logits) value = std::round(normal(random) * 4) / 4;  // many ties
    for (float& value : bias) value = std::round(normal(random)) / 8;
    const Routed out = RouteAll(spec, logits, bias);
    ASSERT_TRUE(out.status.ok());
    for (size_t t = 0; t < 5; ++t) {
      const float* row = &logits[t * static_cast<size_t>(experts)];
      const auto score = [&](int32_t e) { return 1.0f / (1.0f + std::exp(-row[e])); };
      std::vector<int32_t> order(static_cast<size_t>(experts));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return score(a) + bias[static_cast<size_t>(a)] > score(b) + bias[static_cast<size_t>(b)];
      });
      double sum = 0;
      for (int32_t j = 0; j < k; ++j)
        sum += static_cast<double>(score(order[static_cast<size_t>(j)]));
      for (size_t j = 0; j < static_cast<size_t>(k); ++j) {
        const size_t at = t * static_cast<size_t>(k) + j;
        ASSERT_EQ(out.expert[at], order[j])
            << experts << " experts, token " << t << ", choice " << j;
        ASSERT_NEAR(out.weight[at], 2.5 * static_cast<double>(score(order[j])) / sum, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace colibri
