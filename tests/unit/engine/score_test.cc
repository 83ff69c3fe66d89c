// Expected values were worked out with 40 digits by mpmath and with numpy (mean, var, quantile).
#include "engine/score.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace colibri {
namespace {

constexpr std::array<float, 5> kModel = {1.5f, -0.25f, 3.0f, 0.125f, -2.0f};
constexpr std::array<float, 5> kReference = {1.0f, 0.5f, 2.5f, -1.0f, -2.25f};
constexpr double kClose = 1e-14;

TEST(NegativeLogLikelihood, IsThatOfTheSoftmax) {
  constexpr std::array<double, 5> kExpected = {1.78145657505603181, 3.53145657505603181,
                                               0.281456575056031809, 3.15645657505603181,
                                               5.28145657505603181};
  for (int32_t token = 0; token < 5; ++token) {
    EXPECT_NEAR(NegativeLogLikelihood(kModel, token), kExpected[static_cast<size_t>(token)],
                kClose);
  }
}

TEST(NegativeLogLikelihood, NeitherOverflowsNorLosesWhatIsFarAway) {
  const std::array<float, 3> logits = {30000.0f, -30000.0f, 29999.0f};
  EXPECT_NEAR(NegativeLogLikelihood(logits, 0), 0.31326168751822286, kClose);
  EXPECT_NEAR(NegativeLogLikelihood(logits, 1), 60000.313261687518, 1e-10);
}

TEST(NegativeLogLikelihood, IsNotFiniteWhereALogitIsNot) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(NegativeLogLikelihood(std::array<float, 2>{nan, 1.0f}, 1)));
  EXPECT_FALSE(std::isfinite(NegativeLogLikelihood(std::array<float, 2>{1.0f, nan}, 0)));
}

TEST(CompareRows, GivesTheDivergenceFromTheReference) {
  constexpr std::array<double, 5> kReferenceNll = {1.83455219595835463, 2.33455219595835463,
                                                   0.334552195958354631, 3.83455219595835463,
                                                   5.08455219595835463};
  constexpr std::array<double, 5> kDifference = {0.00870769861000391814, -0.0675915822305905636,
                                                 0.0390251976882525192, 0.0209653263674206097,
                                                 -0.00110664043508648339};
  for (int32_t token = 0; token < 5; ++token) {
    const auto i = static_cast<size_t>(token);
    const RowComparison row = CompareRows(kModel, kReference, token);
    EXPECT_NEAR(row.divergence, 0.0560127157005464093, kClose);
    EXPECT_EQ(row.nll, NegativeLogLikelihood(kModel, token));
    EXPECT_NEAR(row.reference_nll, kReferenceNll[i], kClose);
    EXPECT_NEAR(row.probability_difference, kDifference[i], kClose);
    EXPECT_TRUE(row.same_top);
  }
  EXPECT_NEAR(CompareRows(kReference, kModel, 0).divergence, 0.0418567511761012971, kClose);
}

TEST(CompareRows, OfTheSameRowIsExactlyZero) {
  const RowComparison row = CompareRows(kModel, kModel, 3);
  EXPECT_EQ(row.divergence, 0.0);
  EXPECT_EQ(row.probability_difference, 0.0);
  EXPECT_TRUE(row.same_top);
}

TEST(CompareRows, TakesTheLowerIdOfEqualLogits) {
  const std::array<float, 3> tie = {2.0f, 2.0f, 0.0f};
  EXPECT_TRUE(CompareRows(tie, std::array<float, 3>{1.0f, 0.5f, 0.0f}, 0).same_top);
  EXPECT_FALSE(CompareRows(tie, std::array<float, 3>{0.5f, 1.0f, 0.0f}, 0).same_top);
}

TEST(CompareRows, TokensThatTheReferenceExcludesAddNothing) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::array<float, 3> reference = {0.0f, 0.0f, kNever};
  EXPECT_NEAR(CompareRows(std::array<float, 3>{0.0f, 0.0f, 0.0f}, reference, 0).divergence,
              std::log(1.5), kClose);
  EXPECT_EQ(CompareRows(reference, reference, 0).divergence, 0.0);
  EXPECT_TRUE(std::isinf(CompareRows(reference, std::array<float, 3>{}, 0).divergence));
}

constexpr std::array<double, 6> kValues = {0.5, 2.25, -1, 4, 0.75, 3.5};

TEST(MeanAccumulator, GivesMeanAndStandardError) {
  MeanAccumulator values;
  for (const double value : kValues) values.Add(value);
  EXPECT_EQ(values.count(), 6);
  EXPECT_NEAR(values.Result().mean, 1.6666666666666667, kClose);
  EXPECT_NEAR(values.Result().standard_error, 0.7843964417166729, kClose);
}

TEST(MeanAccumulator, KeepsTheErrorOfValuesFarFromZero) {
  MeanAccumulator values;
  for (const double value : kValues) values.Add(1e9 + value);
  EXPECT_NEAR(values.Result().standard_error, 0.7843964417166729, 1e-6);
}

TEST(MeanAccumulator, HasNoErrorForOneValueAndNoneForEqualOnes) {
  MeanAccumulator values;
  values.Add(0.1);
  EXPECT_TRUE(std::isnan(values.Result().standard_error));
  values.Add(0.1);
  values.Add(0.1);
  EXPECT_EQ(values.Result().mean, 0.1);
  EXPECT_EQ(values.Result().standard_error, 0.0);
}

TEST(ShareOf, HasTheErrorOfABinomialShare) {
  EXPECT_EQ(ShareOf(3, 12).mean, 0.25);
  EXPECT_NEAR(ShareOf(3, 12).standard_error, 0.13055824196677338, kClose);
  EXPECT_EQ(ShareOf(12, 12).standard_error, 0.0);
}

TEST(Quantile, InterpolatesBetweenTheTwoNearest) {
  constexpr std::array<double, 6> kAscending = {-1, 0.5, 0.75, 2.25, 3.5, 4};
  constexpr std::array<std::array<double, 2>, 6> kExpected = {
      {{0, -1}, {0.1, -0.25}, {0.5, 1.5}, {0.9, 3.75}, {0.99, 3.975}, {1, 4}}};
  for (const auto& [fraction, value] : kExpected) {
    EXPECT_NEAR(Quantile(kAscending, fraction), value, kClose) << fraction;
  }
  EXPECT_EQ(Quantile(std::array<double, 1>{7}, 0.9), 7.0);
}

}  // namespace
}  // namespace colibri
