#include "moe/expert_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/select.h"
#include "support/kernel_data.h"

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
      gated(n_rows * kGatedStride), answers(threads * static_cast<size_t>(n_tokens) * kTaskRows);
  const ThreadScratch scratch = {matmul.data(), matmul_stride, tiles.data(), answers.data(),
                                 n_tokens};
  Activations activations;
  activations.rows = x.data();
  activations.stride = kHidden;
  Outcome run;
  run.out.assign(static_cast<size_t>(n_tokens) * kHidden, 7.0f);
  ExpertGateUp(kernels, pool, groups, {GatedActivation::kSilu}, activations,
               {gated.data(), kGatedStride}, scratch);
  ExpertDown(kernels, pool, groups, {gated.data(), kGatedStride}, n_tokens, kHidden, run.out.data(),
             kHidden, scratch);
  // Added to a residual the same sums, kept elsewhere until they are whole.
  std::vector<float> residual(run.out.size(), 1.0f), expected = residual, kept(run.out.size());
  std::vector<uint8_t> not_finite(static_cast<size_t>(n_tokens));
  for (float* out : {kept.data(), static_cast<float*>(nullptr)}) {
    std::fill(residual.begin(), residual.end(), 1.0f);
    ExpertDown(kernels, pool, groups, {gated.data(), kGatedStride}, n_tokens, kHidden, out, kHidden,
               scratch, {residual.data(), 0.5f, not_finite.data()});
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = std::fma(0.5f, run.out[i], 1.0f);
    EXPECT_EQ(residual, expected);
    EXPECT_EQ(kept, run.out);
  }
  EXPECT_EQ(std::count(not_finite.begin(), not_finite.end(), 0), n_tokens);
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

// A matrix with the exact values of what it stores.
struct StoredMatrix {
  StoredMatrix(DType dtype, Layout layout, int32_t rows, int32_t cols, uint32_t seed) {
    const auto n = static_cast<size_t>(rows) * static_cast<size_t>(cols);
    const size_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(cols));
    const std::vector<uint8_t> stored = Encode(dtype, testing::RandomFloats(n, seed, 0.3f));
    values.resize(n);
    DequantizeReference(dtype, stored.data(), values.data(), n);
    view.dtype = dtype;
    view.rows = rows;
    view.cols = cols;
    view.row_bytes = row_bytes;
    memory = stored;
    if (layout == Layout::kPanels) {
      const PanelFormat& format = *FindPanelFormat(dtype);
      view.layout = layout;
      view.input = dtype == DType::kBF16   ? ProductInput::kBFloat16
                   : dtype == DType::kQ8_0 ? ProductInput::kInt8Groups
                                           : ProductInput::kFloat32;
      view.row_bytes = PanelRowBytes(format, cols);
      memory.resize(view.bytes());
      for (int32_t r = 0; r < rows; r += kPanelRows) {
        PackPanel(dtype, stored.data() + static_cast<size_t>(r) * row_bytes, row_bytes,
                  std::min(kPanelRows, rows - r), cols,
                  memory.data() + static_cast<size_t>(r) * view.row_bytes);
      }
    }
    view.data = memory.data();
  }
  // The nearest binary16 towards zero; none of the normal range's small end.
  static uint16_t CutToHalf(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    const uint32_t magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    constexpr uint32_t kRebias = (127u - 15u) << 23, kSmallestNormal = kRebias + (1u << 23);
    return static_cast<uint16_t>(sign |
                                 (magnitude < kSmallestNormal ? 0 : (magnitude - kRebias) >> 13));
  }
  static std::vector<uint8_t> Encode(DType dtype, const std::vector<float>& x) {
    std::vector<uint8_t> out(*DTypeBytes(dtype, x.size()));
    if (dtype == DType::kF32) std::memcpy(out.data(), x.data(), out.size());
    for (size_t i = 0; dtype == DType::kBF16 && i < x.size(); ++i)
      std::memcpy(&out[2 * i], reinterpret_cast<const char*>(&x[i]) + 2, 2);
    for (size_t i = 0; dtype == DType::kF16 && i < x.size(); ++i) {
      const uint16_t half = CutToHalf(x[i]);
      std::memcpy(&out[2 * i], &half, 2);
    }
    for (size_t b = 0; dtype == DType::kQ8_0 && b < x.size() / 32; ++b) {
      const uint16_t scale = 0x2000;  // 2^-7
      std::memcpy(&out[34 * b], &scale, 2);
      for (size_t i = 0; i < 32; ++i)
        out[34 * b + 2 + i] = static_cast<uint8_t>(std::lround(x[32 * b + i] * 64));
    }
    return out;
  }
  std::vector<uint8_t> memory;
  std::vector<float> values;
  MatrixView view;
};

// Rows of every length hold each of their forms: those of bfloat16 end in sums.
TEST(GatedRows, HoldsEveryForm) {
  for (int32_t k = 1; k <= 200; ++k) {
    const size_t bytes = GatedRows::StrideOf(k) * sizeof(float);
    EXPECT_EQ(bytes % 64, 0u) << k;
    EXPECT_GE(bytes, static_cast<size_t>(k) * sizeof(float)) << k;
    EXPECT_GE(bytes, BFloat16RowStride(k) * sizeof(uint16_t)) << k;
    const auto groups = static_cast<size_t>((k + kGroupColumns - 1) / kGroupColumns);
    EXPECT_GE(bytes, groups * sizeof(ActivationGroup)) << k;
  }
}

// Gate and up are read by one form of activations, down by any other.
TEST(ExpertGemm, EachMatrixIsMultipliedByItsOwnForm) {
  constexpr int32_t kIn = 64, kMiddle = 96, kTokens = 5;
  const KernelTable& kernels = **SelectKernelsFromEnvironment();
  const std::vector<float> x = testing::RandomFloats(kTokens * kIn, 21);
  std::vector<ActivationGroup> groups(kTokens * kIn / 32);
  const size_t bf16_stride = BFloat16RowStride(kIn);
  std::vector<uint16_t> bf16(kTokens * bf16_stride);
  kernels.quantize_row(x.data(), kTokens * kIn, groups.data());
  for (size_t t = 0; t < kTokens; ++t)
    RoundInput(kernels, &x[t * kIn], kIn, &bf16[t * bf16_stride]);
  const Activations input = {x.data(), kIn, groups.data(), kIn / 32, bf16.data(), bf16_stride};
  auto pool = ThreadPool::Create(2);
  const size_t matmul_stride = (MatMulScratchFloats(kMiddle) + 15) / 16 * 16;
  constexpr size_t kGatedStride = GatedRows::StrideOf(kMiddle);
  Aligned matmul(2 * matmul_stride), tiles(2 * 3 * kTileFloats), gated(kTokens * kGatedStride);
  const ThreadScratch scratch = {matmul.data(), matmul_stride, tiles.data(), nullptr, 0};
  struct Form {
    DType dtype;
    Layout layout;
  };
  constexpr Form kForms[] = {{DType::kF32, Layout::kRows},
                             {DType::kF32, Layout::kPanels},
                             {DType::kF16, Layout::kPanels},
                             {DType::kBF16, Layout::kPanels},
                             {DType::kQ8_0, Layout::kPanels}};
  for (const Form first : kForms) {
    for (const Form second : kForms) {
      const StoredMatrix gate(first.dtype, first.layout, kMiddle, kIn, 1),
          up(first.dtype, first.layout, kMiddle, kIn, 2),
          down(second.dtype, second.layout, kIn, kMiddle, 3);
      FfnWeights weights;
      weights.gate = gate.view;
      weights.up = up.view;
      weights.down = down.view;
      const std::vector<ExpertGroup> one = {{&weights, nullptr, kTokens, 0, nullptr}};
      std::vector<float> out(kTokens * kIn);
      ExpertGateUp(kernels, **pool, one, {GatedActivation::kSilu}, input,
                   {gated.data(), kGatedStride}, scratch);
      ExpertDown(kernels, **pool, one, {gated.data(), kGatedStride}, kTokens, kIn, out.data(), kIn,
                 scratch);
      double error = 0, magnitude = 0;
      for (size_t t = 0; t < kTokens; ++t) {
        std::vector<double> middle(kMiddle);
        for (size_t i = 0; i < kMiddle; ++i) {
          double g = 0, u = 0;
          for (size_t c = 0; c < kIn; ++c) {
            const auto value = static_cast<double>(x[t * kIn + c]);
            g += static_cast<double>(gate.values[i * kIn + c]) * value;
            u += static_cast<double>(up.values[i * kIn + c]) * value;
          }
          middle[i] = g / (1 + std::exp(-g)) * u;
        }
        for (size_t r = 0; r < kIn; ++r) {
          double sum = 0;
          for (size_t i = 0; i < kMiddle; ++i)
            sum += static_cast<double>(down.values[r * kMiddle + i]) * middle[i];
          error += std::pow(static_cast<double>(out[t * kIn + r]) - sum, 2);
          magnitude += sum * sum;
        }
      }
      // What 8 significant bits, or 127 steps of the largest of 32, leave of a sum.
      EXPECT_LT(std::sqrt(error / magnitude), 0.015)
          << DTypeName(first.dtype) << " " << DTypeName(second.dtype);
    }
  }
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
