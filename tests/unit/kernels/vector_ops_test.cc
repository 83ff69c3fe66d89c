#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "support/kernel_data.h"
#include "support/kernel_tables.h"

namespace colibri {
namespace {

using testing::RandomFloats;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Heap memory of exactly this size, so that AddressSanitizer sees every access beyond.
struct Exact {
  explicit Exact(const std::vector<float>& values)
      : data(std::make_unique<float[]>(values.size())), size(values.size()) {
    std::copy(values.begin(), values.end(), data.get());
  }
  float* get() const { return data.get(); }
  std::vector<float> values() const { return {data.get(), data.get() + size}; }
  std::unique_ptr<float[]> data;
  size_t size;
};

class VectorOps : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& table() const { return *GetParam(); }

  // exp through exp_sum.
  std::vector<float> ExpOf(const std::vector<float>& x) const {
    const Exact e(x);
    table().exp_sum(e.get(), e.size, 0.0f);
    return e.values();
  }
  std::vector<float> Gated(const GatedActivationArgs& args, const std::vector<float>& gate,
                           const std::vector<float>& up) const {
    const Exact g(gate), u(up), out(gate);
    table().gated_activation(args, g.get(), u.get(), gate.size(), out.get());
    return out.values();
  }
};

// Units in the last place of a float32 near `want`.
double Ulp(double want) {
  const auto f = static_cast<float>(std::abs(want));
  return static_cast<double>(std::nextafter(f, kInf)) - static_cast<double>(f);
}

TEST_P(VectorOps, ExpIsWithinTwoUlp) {
  std::vector<float> x;
  for (int i = -87 * 500; i <= 88 * 500; ++i) x.push_back(static_cast<float>(i) / 500.0f);
  for (const float tiny :
       {0.0f, -0.0f, 1e-30f, -1e-30f, 1e-7f, -1e-7f, 0.34657359f, -0.34657359f}) {
    x.push_back(tiny);
  }
  const auto got = ExpOf(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - want), 2 * Ulp(want)) << "exp of " << x[i];
  }
}

TEST_P(VectorOps, ExpOutsideTheRangeIsZeroOrInfinityAndNanStays) {
  const auto got = ExpOf({-kInf, -1e30f, -1000.0f, -151.0f, -110.0f, 89.0f, 1000.0f, kInf, kNan});
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(got[i], 0.0f);
  for (size_t i = 5; i < 8; ++i) EXPECT_EQ(got[i], kInf);
  EXPECT_TRUE(std::isnan(got[8]));
  // Numbers too small to be normal: the spacing there is 2^-149.
  for (float x = -103.0f; x < -87.0f; x += 0.37f) {
    EXPECT_NEAR(ExpOf({x})[0], std::exp(static_cast<double>(x)), 2.5 * 0x1p-149 + 1e-45);
  }
}

TEST_P(VectorOps, ExpSumIsTheSumOfWhatItWrote) {
  for (const size_t n : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 63u, 64u, 65u, 1000u}) {
    const auto x = RandomFloats(n, static_cast<uint32_t>(n), 5.0f);
    const float max = *std::max_element(x.begin(), x.end());
    const Exact e(x);
    const float sum = table().exp_sum(e.get(), n, max);
    double want = 0;
    for (size_t i = 0; i < n; ++i) {
      const double shifted = static_cast<double>(x[i] - max);
      EXPECT_NEAR(e.get()[i], std::exp(shifted), 3e-7 * std::exp(shifted));
      want += static_cast<double>(e.get()[i]);
    }
    EXPECT_NEAR(sum, want, 1e-6 * want);
  }
}

TEST_P(VectorOps, AnExponentialDoesNotDependOnItsPlace) {
  const auto x = RandomFloats(67, 9, 10.0f);
  const auto together = ExpOf(x);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(ExpOf({x[i]})[0], together[i]) << i;
}

TEST_P(VectorOps, RmsNormAgreesWithDouble) {
  for (const size_t n : {1u, 3u, 8u, 15u, 64u, 100u, 2048u, 8191u}) {
    const auto x = RandomFloats(n, 1, 3.0f), weight = RandomFloats(n, 2);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-6);
    for (const bool with_weight : {false, true}) {
      const Exact in(x), w(weight), out(x);
      table().rms_norm(in.get(), with_weight ? w.get() : nullptr, 1e-6f, n, out.get());
      // In place.
      const Exact same(x);
      table().rms_norm(same.get(), with_weight ? w.get() : nullptr, 1e-6f, n, same.get());
      for (size_t i = 0; i < n; ++i) {
        const double want = static_cast<double>(x[i]) * inverse *
                            (with_weight ? static_cast<double>(weight[i]) : 1.0);
        ASSERT_NEAR(out.get()[i], want, 1e-6 * std::abs(want)) << n << " " << i;
        ASSERT_EQ(same.get()[i], out.get()[i]);
      }
    }
  }
}

TEST_P(VectorOps, LayerNormAgreesWithDouble) {
  for (const size_t n : {2u, 3u, 8u, 15u, 64u, 100u, 2048u, 8191u}) {
    auto x = RandomFloats(n, 1, 3.0f);
    for (float& v : x) v += 2.0f;
    const auto weight = RandomFloats(n, 2), bias = RandomFloats(n, 3);
    double sum = 0, squares = 0;
    for (const float v : x) sum += static_cast<double>(v);
    const double mean = sum / static_cast<double>(n);
    for (const float v : x) squares += std::pow(static_cast<double>(v) - mean, 2);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (const bool scaled : {false, true}) {
      const Exact in(x), w(weight), b(bias), out(x);
      table().layer_norm(in.get(), scaled ? w.get() : nullptr, scaled ? b.get() : nullptr, 1e-5f, n,
                         out.get());
      for (size_t i = 0; i < n; ++i) {
        double want = (static_cast<double>(x[i]) - mean) * inverse;
        double size = std::max(1.0, std::abs(want));
        if (scaled) {
          want = want * static_cast<double>(weight[i]) + static_cast<double>(bias[i]);
          size = size * std::abs(static_cast<double>(weight[i])) +
                 std::abs(static_cast<double>(bias[i]));
        }
        ASSERT_NEAR(out.get()[i], want, 1e-6 * size) << n << " " << i;
      }
    }
  }
}

double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

// What each kind means, in double; what the exponential is taken of is rounded as float32 is, since
// its rounding is part of the input.
double GatedReference(const GatedActivationArgs& args, float gate, float up) {
  const auto g = static_cast<double>(gate), u = static_cast<double>(up);
  switch (args.kind) {
    case GatedActivation::kSilu:
      return g * Sigmoid(g) * u;
    case GatedActivation::kGeluTanh:
      return g * Sigmoid(2 * std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)) * u;
    case GatedActivation::kGeluErf:
      return 0.5 * g * std::erfc(-g / std::sqrt(2.0)) * u;
    case GatedActivation::kRelu2:
      return g > 0 ? g * g * u : 0.0;
    case GatedActivation::kSwigluOai: {
      const float bounded = std::min(gate, args.limit);
      const double bounded_up =
          std::clamp(u, static_cast<double>(-args.limit), static_cast<double>(args.limit));
      return (bounded_up + 1.0) * static_cast<double>(bounded) *
             Sigmoid(static_cast<double>(args.alpha * bounded));
    }
  }
  return 0;
}

constexpr GatedActivation kKinds[] = {GatedActivation::kSilu, GatedActivation::kGeluTanh,
                                      GatedActivation::kGeluErf, GatedActivation::kRelu2,
                                      GatedActivation::kSwigluOai};

TEST_P(VectorOps, GatedActivationsAgreeWithDouble) {
  std::vector<float> gate, up;
  for (int i = -4000; i <= 4000; ++i) {
    gate.push_back(static_cast<float>(i) / 200.0f);
    up.push_back(static_cast<float>((i * 37) % 401 - 200) / 20.0f);
  }
  for (const GatedActivation kind : kKinds) {
    const GatedActivationArgs args{.kind = kind};
    const auto got = Gated(args, gate, up);
    for (size_t i = 0; i < gate.size(); ++i) {
      const double want = GatedReference(args, gate[i], up[i]);
      double tolerance = 1e-6 * std::abs(want);
      // Far on the negative side tanh's argument, some 100 units, carries its own rounding.
      if (kind == GatedActivation::kGeluTanh && gate[i] < -2.0f) tolerance *= 50;
      // (up + 1) cancels near up = -1.
      if (kind == GatedActivation::kSwigluOai) tolerance += 1e-7 * std::abs(want);
      ASSERT_NEAR(got[i], want, tolerance + 1e-37)
          << "kind " << static_cast<int>(kind) << ", gate " << gate[i] << ", up " << up[i];
    }
  }
}

TEST_P(VectorOps, SiluKeepsItsPrecisionWhereTheSigmoidIsTiny) {
  for (float x = -87.0f; x < -20.0f; x += 0.73f) {
    const double want = static_cast<double>(x) * Sigmoid(static_cast<double>(x));
    EXPECT_NEAR(Gated({.kind = GatedActivation::kSilu}, {x}, {1.0f})[0], want,
                1e-6 * std::abs(want));
  }
}

TEST_P(VectorOps, SwigluOaiObeysItsAlphaAndLimit) {
  const GatedActivationArgs args{.kind = GatedActivation::kSwigluOai, .alpha = 1.5f, .limit = 2.0f};
  const std::vector<float> gate = {5.0f, 2.0f, -5.0f, 1.0f, 1.0f};
  const std::vector<float> up = {1.0f, 1.0f, 1.0f, 9.0f, -9.0f};
  const auto got = Gated(args, gate, up);
  EXPECT_NEAR(got[0], 2.0 * 2.0 * Sigmoid(3.0), 1e-5);
  EXPECT_EQ(got[0], got[1]);
  EXPECT_NEAR(got[2], 2.0 * -5.0 * Sigmoid(-7.5), 1e-7);
  EXPECT_NEAR(got[3], 3.0 * Sigmoid(1.5), 1e-5);
  EXPECT_NEAR(got[4], -1.0 * Sigmoid(1.5), 1e-5);
}

TEST_P(VectorOps, NanIsNotHidden) {
  for (const GatedActivation kind : kKinds) {
    const auto got = Gated({.kind = kind}, {kNan, 1.0f, 1.0f}, {1.0f, kNan, 1.0f});
    EXPECT_TRUE(std::isnan(got[0])) << static_cast<int>(kind);
    EXPECT_TRUE(std::isnan(got[1])) << static_cast<int>(kind);
    EXPECT_FALSE(std::isnan(got[2])) << static_cast<int>(kind);
  }
  std::vector<float> x(40, 1.0f), out(40);
  x[35] = kNan;
  table().rms_norm(x.data(), nullptr, 1e-6f, 40, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  table().layer_norm(x.data(), nullptr, nullptr, 1e-6f, 40, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST_P(VectorOps, AnActivationDoesNotDependOnItsPlace) {
  const auto gate = RandomFloats(37, 5, 3.0f), up = RandomFloats(37, 6, 3.0f);
  for (const GatedActivation kind : kKinds) {
    const auto together = Gated({.kind = kind}, gate, up);
    for (size_t i = 0; i < gate.size(); ++i) {
      EXPECT_EQ(Gated({.kind = kind}, {gate[i]}, {up[i]})[0], together[i]);
    }
    // Over its own inputs.
    const Exact g(gate), u(up);
    table().gated_activation({.kind = kind}, g.get(), u.get(), gate.size(), u.get());
    EXPECT_EQ(u.values(), together);
    const Exact again(up);
    table().gated_activation({.kind = kind}, g.get(), again.get(), gate.size(), g.get());
    EXPECT_EQ(g.values(), together);
  }
}

TEST_P(VectorOps, AxpyAddsEveryElement) {
  for (const size_t n : {0u, 1u, 8u, 15u, 16u, 33u}) {
    const auto x = RandomFloats(n, 1), y = RandomFloats(n, 2);
    const Exact out(y);
    table().axpy(0.7f, Exact(x).get(), n, out.get());
    for (size_t i = 0; i < n; ++i) {
      const double want = 0.7 * static_cast<double>(x[i]) + static_cast<double>(y[i]);
      EXPECT_NEAR(out.get()[i], want, 1e-6 * (std::abs(want) + 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTable, VectorOps, ::testing::ValuesIn(testing::RunnableTables()),
                         testing::TableName);

}  // namespace
}  // namespace colibri
