#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace colibri {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Logits that look like a model's: a few high ones, a long tail, some equal.
std::vector<float> MakeLogits(int32_t n, uint64_t seed) {
  std::vector<float> logits(n);
  for (int32_t i = 0; i < n; ++i) {
    const double u = UniformAt(seed, static_cast<uint64_t>(i));
    logits[i] = static_cast<float>(std::round(64 * 8 * u * u * u) / 64);
  }
  return logits;
}

// The distribution that the parameters ask for, computed the plain way: whole sorts, a mask and
// probabilities in long double. What the sampler must agree with.
std::map<int32_t, long double> ExpectedDistribution(const SamplingParams& p,
                                                    const std::vector<float>& logits,
                                                    const TokenHistory& history) {
  const size_t n = logits.size();
  std::vector<float> x = logits;
  for (size_t id = 0; id < n; ++id) {
    int total = 0, in_answer = 0;
    for (size_t i = 0; i < history.tokens.size(); ++i) {
      if (history.tokens[i] != static_cast<int32_t>(id)) continue;
      ++total;
      if (i >= history.n_prompt) ++in_answer;
    }
    if (total > 0) {
      x[id] = x[id] > 0 ? x[id] / p.repetition_penalty : x[id] * p.repetition_penalty;
    }
    if (in_answer > 0) {
      x[id] -= p.presence_penalty + p.frequency_penalty * static_cast<float>(in_answer);
    }
    for (const auto& [token, bias] : p.logit_bias) {
      if (token == static_cast<int32_t>(id)) x[id] += bias;
    }
  }
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return x[a] > x[b]; });
  if (p.top_k > 0) order.resize(std::min(n, static_cast<size_t>(p.top_k)));
  const auto weight = [&](int32_t id) {
    return std::exp((static_cast<long double>(x[id]) - x[order[0]]) / p.temperature);
  };
  long double sum = 0;
  for (const int32_t id : order) sum += weight(id);
  long double cumulative = 0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || cumulative < p.top_p * sum)) {
    cumulative += weight(order[kept++]);
  }
  order.resize(kept);
  std::map<int32_t, long double> out;
  for (const int32_t id : order) {
    if (weight(id) >= p.min_p) out[id] = weight(id);
  }
  sum = 0;
  for (const auto& [id, w] : out) sum += w;
  for (auto& [id, w] : out) w /= sum;
  return out;
}

// Draws once at each of many positions and holds the counts against the distribution.
void ExpectDraws(const SamplingParams& params, const std::vector<float>& logits,
                 std::vector<int32_t> tokens, size_t n_prompt) {
  constexpr int kDraws = 20000;
  const auto expected = ExpectedDistribution(params, logits, {tokens, n_prompt});
  Sampler sampler(static_cast<int32_t>(logits.size()));
  std::map<int32_t, int> counts;
  SamplingParams seeded = params;
  for (int i = 0; i < kDraws; ++i) {
    seeded.seed = static_cast<uint64_t>(i);
    const auto token = sampler.Sample(seeded, logits, {tokens, n_prompt});
    ASSERT_TRUE(token.ok()) << token.status().ToString();
    ASSERT_TRUE(expected.contains(*token)) << "token " << *token << " should have been cut";
    ++counts[*token];
  }
  for (const auto& [id, probability] : expected) {
    const double p = static_cast<double>(probability);
    const double deviation = std::sqrt(kDraws * p * (1 - p)) + 1;
    EXPECT_NEAR(counts[id], kDraws * p, 5 * deviation) << "token " << id;
  }
}

TEST(Philox, GivesThePublishedKnownAnswers) {
  // From the authors' Random123 distribution (kat_vectors, philox4x32 with 10 rounds).
  const std::array<uint32_t, 4> zero = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), zero);
  const std::array<uint32_t, 4> ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            ones);
  const std::array<uint32_t, 4> pi = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            pi);
}

TEST(Philox, UniformNumbersFillTheUnitInterval) {
  std::array<int, 16> bins{};
  for (uint64_t i = 0; i < 16000; ++i) {
    const double u = UniformAt(7, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<size_t>(u * 16)];
  }
  for (const int n : bins) EXPECT_NEAR(n, 1000, 160);
}

TEST(Sampler, GreedyTakesTheLargestAndTiesGoToTheLowerId) {
  Sampler sampler(5);
  const std::vector<float> logits = {1, 3, -2, 3, 0};
  EXPECT_EQ(*sampler.Sample({}, logits, {}), 1);
  const std::vector<float> equal(5, 0.25f);
  EXPECT_EQ(*sampler.Sample({}, equal, {}), 0);
}

TEST(Sampler, ATokenThatIsMinusInfinityIsNeverDrawn) {
  Sampler sampler(3);
  const std::vector<float> logits = {-kInf, 0, -kInf};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SamplingParams params{.temperature = 100, .seed = seed};
    EXPECT_EQ(*sampler.Sample(params, logits, {}), 1);
    params.top_k = 2;
    EXPECT_EQ(*sampler.Sample(params, logits, {}), 1);
  }
}

TEST(Sampler, ANonFiniteLogitIsAnErrorThatNamesTheToken) {
  Sampler sampler(3);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
    for (const float temperature : {0.0f, 1.0f}) {
      const std::vector<float> logits = {0, 1, bad};
      const auto token = sampler.Sample({.temperature = temperature}, logits, {});
      ASSERT_FALSE(token.ok());
      EXPECT_EQ(token.status().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(token.status().message().find("token 2"), std::string::npos);
    }
  }
  const std::vector<float> nothing(3, -kInf);
  EXPECT_FALSE(sampler.Sample({}, nothing, {}).ok());
}

TEST(Sampler, DrawsFollowTheDistributionOfEachParameter) {
  const auto logits = MakeLogits(200, 3);
  ExpectDraws({.temperature = 1}, logits, {}, 0);
  ExpectDraws({.temperature = 0.5f}, logits, {}, 0);
  ExpectDraws({.temperature = 2, .top_k = 7}, logits, {}, 0);
  ExpectDraws({.temperature = 1, .top_k = 1}, logits, {}, 0);
  ExpectDraws({.temperature = 1, .top_k = 1000}, logits, {}, 0);
  ExpectDraws({.temperature = 1, .top_p = 0.7f}, logits, {}, 0);
  ExpectDraws({.temperature = 50, .top_p = 0.95f}, logits, {}, 0);
  ExpectDraws({.temperature = 1, .top_p = 1e-6f}, logits, {}, 0);
  ExpectDraws({.temperature = 1, .min_p = 0.3f}, logits, {}, 0);
  ExpectDraws({.temperature = 1, .min_p = 1}, logits, {}, 0);
  ExpectDraws({.temperature = 1.5f, .top_k = 40, .top_p = 0.8f, .min_p = 0.05f}, logits, {}, 0);
}

TEST(Sampler, PenaltiesCountWhatTheyShould) {
  const auto logits = MakeLogits(60, 4);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back((i * i) % 60);
  ExpectDraws({.temperature = 1, .repetition_penalty = 1.5f}, logits, tokens, 20);
  ExpectDraws({.temperature = 1, .repetition_penalty = 0.5f}, logits, tokens, 40);
  ExpectDraws({.temperature = 1, .presence_penalty = 1}, logits, tokens, 20);
  ExpectDraws({.temperature = 1, .frequency_penalty = 0.7f}, logits, tokens, 20);
  ExpectDraws({.temperature = 0.8f,
               .top_k = 30,
               .top_p = 0.9f,
               .repetition_penalty = 1.2f,
               .presence_penalty = -1,
               .frequency_penalty = 0.3f,
               .logit_bias = {{3, 5.0f}, {59, -100.0f}}},
              logits, tokens, 10);
}

TEST(Sampler, PenaltiesApplyToGreedyChoiceToo) {
  Sampler sampler(3);
  const std::vector<float> logits = {2, 1.5f, -1};
  const std::vector<int32_t> tokens = {0};
  EXPECT_EQ(*sampler.Sample({.repetition_penalty = 1.5f}, logits, {tokens, 1}), 1);
  // Presence counts the answer alone: token 0 stands in the prompt here, in the answer there.
  EXPECT_EQ(*sampler.Sample({.presence_penalty = 1}, logits, {tokens, 1}), 0);
  EXPECT_EQ(*sampler.Sample({.presence_penalty = 1}, logits, {tokens, 0}), 1);
  EXPECT_EQ(*sampler.Sample({.logit_bias = {{2, 10.0f}}}, logits, {tokens, 0}), 2);
}

TEST(Sampler, KeepsNothingFromOneCallToTheNext) {
  const auto logits = MakeLogits(100, 5);
  const std::vector<int32_t> tokens = {1, 5, 5, 99, 1};
  const SamplingParams penalised{
      .temperature = 1, .top_p = 0.9f, .repetition_penalty = 2, .frequency_penalty = 1, .seed = 9};
  Sampler sampler(100);
  const int32_t first = *sampler.Sample(penalised, logits, {tokens, 2});
  (void)*sampler.Sample({.temperature = 3, .top_k = 5, .seed = 1}, logits, {tokens, 0});
  EXPECT_EQ(*sampler.Sample(penalised, logits, {tokens, 2}), first);
  EXPECT_EQ(*Sampler(100).Sample(penalised, logits, {tokens, 2}), first);
}

TEST(Sampler, RandomnessDependsOnSeedAndPositionAlone) {
  const std::vector<float> flat(1000, 0.0f);
  const std::vector<int32_t> a = {1, 2, 3}, b = {7, 8, 9}, longer = {1, 2, 3, 4};
  Sampler sampler(1000);
  SamplingParams params{.temperature = 1, .seed = 1234};
  const int32_t token = *sampler.Sample(params, flat, {a, 3});
  EXPECT_EQ(*sampler.Sample(params, flat, {b, 1}), token);
  EXPECT_NE(*sampler.Sample(params, flat, {longer, 3}), token);
  params.seed += uint64_t{1} << 40;
  EXPECT_NE(*sampler.Sample(params, flat, {a, 3}), token);
}

TEST(Sampler, TinyTemperaturesAreGreedy) {
  const auto logits = MakeLogits(100, 6);
  Sampler sampler(100);
  const int32_t greedy = *sampler.Sample({}, logits, {});
  for (const float temperature : {1e-6f, 1e-38f, 1e-45f}) {
    EXPECT_EQ(*sampler.Sample({.temperature = temperature, .top_k = 1}, logits, {}), greedy);
  }
}

TEST(ValidateSampling, NamesTheFieldAndItsRange) {
  EXPECT_TRUE(ValidateSampling({}, 10).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<SamplingParams, std::string>> bad = {
      {{.temperature = -1}, "temperature is -1, must be in [0, 100]"},
      {{.temperature = nan}, "temperature is nan"},
      {{.temperature = kInf}, "temperature is inf"},
      {{.top_k = -1}, "top_k is -1"},
      {{.top_p = 0}, "top_p is 0, must be in (0, 1]"},
      {{.top_p = 1.5f}, "top_p is 1.5"},
      {{.min_p = -0.5f}, "min_p is -0.5, must be in [0, 1]"},
      {{.repetition_penalty = 0}, "repetition_penalty is 0, must be in (0, 100]"},
      {{.presence_penalty = 101}, "presence_penalty is 101, must be in [-100, 100]"},
      {{.frequency_penalty = nan}, "frequency_penalty is nan"},
      {{.logit_bias = {{10, 1.0f}}}, "logit_bias names token 10, must be in [0, 10)"},
      {{.logit_bias = {{-1, 1.0f}}}, "logit_bias names token -1"},
      {{.logit_bias = {{4, 1.0f}, {4, 2.0f}}}, "logit_bias names token 4 twice"},
      {{.logit_bias = {{4, kInf}}}, "logit_bias of token 4 is inf, must be in [-100, 100]"},
  };
  for (const auto& [params, message] : bad) {
    const Status status = ValidateSampling(params, 10);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace colibri
