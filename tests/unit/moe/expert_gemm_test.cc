#include "moe/expert_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/select.h"
#include "moe/combine.h"

namespace colibri {
namespace {

constexpr int32_t kHidden = 48, kIntermediate = 100;  // no multiples of a panel

// An expert with float32 weights of its own.
struct Expert {
  std::vector<float> gate, up, down, gate_bias, up_bias, down_bias;
  FfnWeights view;
  explicit Expert(std::mt19937& random) {
    std::normal_distribution<float> normal(0, 0.3f);
    const auto fill = [&](std::vector<float>& v, size_t n) {
      v.resize(n);
      for (float& x : v) x = normal(random);
    };
    fill(gate, kIntermediate * kHidden);
    fill(up, kIntermediate * kHidden);
    fill(down, kHidden * kIntermediate);
    fill(gate_bias, kIntermediate);
    fill(up_bias, kIntermediate);
    fill(down_bias, kHidden);
    view.gate = View(gate, kIntermediate, kHidden);
    view.up = View(up, kIntermediate, kHidden);
    view.down = View(down, kHidden, kIntermediate);
    view.gate_bias = gate_bias.data();
    view.up_bias = up_bias.data();
    view.down_bias = down_bias.data();
  }
  static MatrixView View(const std::vector<float>& v, int32_t rows, int32_t cols) {
    return {DType::kF32, rows, cols, static_cast<size_t>(cols) * sizeof(float),
            reinterpret_cast<const uint8_t*>(v.data())};
  }
};

// silu(gate x + b) * (up x + b), then down, in double precision.
std::vector<double> Reference(const Expert& e, const float* x) {
  std::vector<double> gated(kIntermediate), out(kHidden);
  for (size_t i = 0; i < kIntermediate; ++i) {
    double g = static_cast<double>(e.gate_bias[i]), u = static_cast<double>(e.up_bias[i]);
    for (size_t c = 0; c < kHidden; ++c) {
      g += static_cast<double>(e.gate[i * kHidden + c]) * static_cast<double>(x[c]);
      u += static_cast<double>(e.up[i * kHidden + c]) * static_cast<double>(x[c]);
    }
    gated[i] = g / (1 + std::exp(-g)) * u;
  }
  for (size_t r = 0; r < kHidden; ++r) {
    out[r] = static_cast<double>(e.down_bias[r]);
    for (size_t i = 0; i < kIntermediate; ++i)
      out[r] += static_cast<double>(e.down[r * kIntermediate + i]) * gated[i];
  }
  return out;
}

struct Outcome {
  std::vector<float> out;
};

Outcome Compute(ThreadPool& pool, const std::vector<ExpertGroup>& groups,
                const std::vector<float>& x, size_t n_rows) {
  const KernelTable& kernels = **SelectKernelsFromEnvironment();
  const auto threads = static_cast<size_t>(pool.n_threads());
  const size_t stride = MatMulScratchFloats(kIntermediate), up_stride = 64 * kPanelRows;
  std::vector<float> scratch(threads * stride + 16), up(threads * up_stride),
      gated(n_rows * kIntermediate);
  float* aligned =
      reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  Outcome run;
  run.out.resize(n_rows * kHidden);
  ExpertGateUp(kernels, pool, groups, {GatedActivation::kSilu}, x.data(), kHidden, gated.data(),
               kIntermediate, {aligned, stride}, {up.data(), up_stride});
  ExpertDown(kernels, pool, groups, gated.data(), kIntermediate, run.out.data(), kHidden,
             {aligned, stride});
  return run;
}

TEST(ExpertGemm, GroupsAgreeWithDoublePrecisionAndEachTokenIsTheSameAlone) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  const Expert first(random), second(random), shared(random);
  constexpr size_t kTokens = 150;  // more than one run of tokens
  std::vector<float> x(kTokens * kHidden);
  for (float& v : x) v = normal(random);
  std::vector<int32_t> rows_first, rows_second;
  for (int32_t t = 0; t < static_cast<int32_t>(kTokens); ++t)
    (t % 3 == 0 ? rows_first : rows_second).push_back(t);
  const auto n_first = static_cast<int32_t>(rows_first.size()),
             n_second = static_cast<int32_t>(rows_second.size());
  const std::vector<ExpertGroup> groups = {
      {&first.view, rows_first.data(), n_first, 0},
      {&second.view, rows_second.data(), n_second, n_first},
      {&shared.view, nullptr, static_cast<int32_t>(kTokens), n_first + n_second}};
  auto two = ThreadPool::Create(2), one = ThreadPool::Create(1);
  const Outcome all = Compute(**two, groups, x, 2 * kTokens);
  const auto check = [&](const Expert& expert, int32_t token, size_t row) {
    const std::vector<double> expected =
        Reference(expert, &x[static_cast<size_t>(token) * kHidden]);
    for (size_t i = 0; i < kHidden; ++i)
      ASSERT_NEAR(all.out[row * kHidden + i], expected[i], 2e-4) << "token " << token;
    const std::vector<ExpertGroup> alone = {{&expert.view, &token, 1, 0}};
    const Outcome single = Compute(**one, alone, x, 1);
    ASSERT_EQ(std::memcmp(single.out.data(), &all.out[row * kHidden], kHidden * sizeof(float)), 0)
        << "token " << token;
  };
  for (size_t i = 0; i < rows_first.size(); ++i) check(first, rows_first[i], i);
  for (size_t i = 0; i < rows_second.size(); ++i)
    check(second, rows_second[i], rows_first.size() + i);
  for (size_t t = 0; t < kTokens; ++t) check(shared, static_cast<int32_t>(t), kTokens + t);
}

TEST(Combine, AddsTheChoicesInTheirOwnOrder) {
  const KernelTable& kernels = **SelectKernelsFromEnvironment();
  const std::vector<float> expert_out = {1, 2, 10, 20, 100, 200};  // three slots of two
  const int32_t slots[] = {2, 0};
  const float weights[] = {0.5f, 2.0f};
  float out[2] = {7, 7};
  Combine(kernels, slots, weights, 2, expert_out.data(), 2, 2, out);
  EXPECT_FLOAT_EQ(out[0], 52.0f);
  EXPECT_FLOAT_EQ(out[1], 104.0f);
}

}  // namespace
}  // namespace colibri
