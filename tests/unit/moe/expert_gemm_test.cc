#include "moe/expert_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/select.h"

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
  std::vector<float> out;  // [n_tokens, kHidden]
};

// A buffer whose floats begin at a cache line.
class Aligned {
 public:
  explicit Aligned(size_t n) : memory_(n + 16) {}
  float* data() {
    return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
  }

 private:
  std::vector<float> memory_;
};

Outcome Compute(ThreadPool& pool, const std::vector<ExpertGroup>& groups,
                const std::vector<float>& x, int32_t n_tokens, size_t n_rows) {
  const KernelTable& kernels = **SelectKernelsFromEnvironment();
  const auto threads = static_cast<size_t>(pool.n_threads());
  const size_t matmul_stride = (MatMulScratchFloats(kIntermediate) + 15) / 16 * 16;
  constexpr size_t kGatedStride = (kIntermediate + 15) / 16 * 16;
  Aligned matmul(threads * matmul_stride), tiles(threads * 3 * kTileFloats),
      gated(n_rows * kGatedStride);
  const ThreadScratch scratch = {matmul.data(), matmul_stride, tiles.data()};
  Activations activations;
  activations.rows = x.data();
  activations.stride = kHidden;
  Outcome run;
  run.out.assign(static_cast<size_t>(n_tokens) * kHidden, 7.0f);
  ExpertGateUp(kernels, pool, groups, {GatedActivation::kSilu}, activations,
               {gated.data(), kGatedStride}, scratch);
  ExpertDown(kernels, pool, groups, {gated.data(), kGatedStride}, n_tokens, kHidden, run.out.data(),
             kHidden, scratch);
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
  std::vector<float> weight_first(rows_first.size()), weight_second(rows_second.size()),
      weight_shared(kTokens);
  for (std::vector<float>* weights : {&weight_first, &weight_second, &weight_shared}) {
    for (float& w : *weights) w = normal(random);
  }
  const std::vector<ExpertGroup> groups = {
      {&first.view, rows_first.data(), n_first, 0, weight_first.data()},
      {&second.view, rows_second.data(), n_second, n_first, weight_second.data()},
      {&shared.view, nullptr, static_cast<int32_t>(kTokens), n_first + n_second,
       weight_shared.data()}};
  auto two = ThreadPool::Create(2), one = ThreadPool::Create(1);
  const Outcome all = Compute(**two, groups, x, kTokens, 2 * kTokens);
  const auto check = [&](const Expert& expert, int32_t token, const float* weight) {
    const auto t = static_cast<size_t>(token);
    const std::vector<double> routed = Reference(expert, &x[t * kHidden]),
                              common = Reference(shared, &x[t * kHidden]);
    for (size_t i = 0; i < kHidden; ++i) {
      const double expected = static_cast<double>(*weight) * routed[i] +
                              static_cast<double>(weight_shared[t]) * common[i];
      ASSERT_NEAR(all.out[t * kHidden + i], expected, 5e-4) << "token " << token;
    }
    const std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(t * kHidden),
                                 x.begin() + static_cast<std::ptrdiff_t>((t + 1) * kHidden));
    const int32_t zero = 0;
    const std::vector<ExpertGroup> alone = {{&expert.view, &zero, 1, 0, weight},
                                            {&shared.view, nullptr, 1, 1, &weight_shared[t]}};
    const Outcome single = Compute(**one, alone, row, 1, 2);
    ASSERT_EQ(std::memcmp(single.out.data(), &all.out[t * kHidden], kHidden * sizeof(float)), 0)
        << "token " << token;
  };
  for (size_t i = 0; i < rows_first.size(); ++i) check(first, rows_first[i], &weight_first[i]);
  for (size_t i = 0; i < rows_second.size(); ++i) check(second, rows_second[i], &weight_second[i]);
}

TEST(ExpertGemm, ADenseBlockIsOneGroupWithoutWeights) {
  std::mt19937 random(12);
  const Expert block(random);
  std::vector<float> x(3 * kHidden, 0.25f);
  auto pool = ThreadPool::Create(2);
  const std::vector<ExpertGroup> groups = {{&block.view, nullptr, 3, 0, nullptr}};
  const Outcome run = Compute(**pool, groups, x, 3, 3);
  const std::vector<double> expected = Reference(block, x.data());
  for (size_t i = 0; i < 3 * kHidden; ++i)
    ASSERT_NEAR(run.out[i], expected[i % kHidden], 2e-4) << i;
}

}  // namespace
}  // namespace colibri
