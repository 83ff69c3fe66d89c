#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/kernel_data.h"
#include "support/kernel_tables.h"
#include "support/panel_weights.h"
#include "tensor/half.h"

namespace colibri {
namespace {

using testing::RandomFloats;
using testing::TableAndType;
using Weights = testing::PanelWeights;

bool SameBits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

class FloatMatMul : public ::testing::TestWithParam<TableAndType> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }
  DType dtype() const { return GetParam().dtype; }

  static FloatMatMulArgs Arguments(const Weights& w, const std::vector<float>& x, int32_t n_tokens,
                                   std::vector<float>& out) {
    FloatMatMulArgs args{};
    args.w = w.panels.get();
    args.n_rows = w.rows;
    args.k = w.cols;
    args.x = x.data();
    args.x_stride = static_cast<size_t>(w.cols);
    args.n_tokens = n_tokens;
    args.out = out.data();
    args.out_stride = static_cast<size_t>(w.rows);
    return args;
  }
  // x holds no element more than it needs, so that the sanitizer sees every read beyond.
  std::vector<float> Multiply(const KernelTable& kernels, const Weights& w,
                              const std::vector<float>& x) const {
    const auto n_tokens = static_cast<int32_t>(x.size()) / w.cols;
    std::vector<float> out(static_cast<size_t>(n_tokens) * static_cast<size_t>(w.rows), NAN);
    kernels.float_matmul[static_cast<size_t>(dtype())](Arguments(w, x, n_tokens, out));
    return out;
  }

  // Against the sum in double: k fused multiply-adds in float32 err by k half units of the last
  // place of their magnitude; `generic` rounds products as well.
  static void ExpectProducts(const Weights& w, const std::vector<float>& x,
                             const std::vector<float>& out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t t = i / static_cast<size_t>(w.rows), r = i % static_cast<size_t>(w.rows);
      double sum = 0, magnitude = 0;
      for (int32_t c = 0; c < w.cols; ++c) {
        const double product =
            static_cast<double>(w.value(static_cast<int32_t>(r), c)) *
            static_cast<double>(x[t * static_cast<size_t>(w.cols) + static_cast<size_t>(c)]);
        sum += product;
        magnitude += std::abs(product);
      }
      const double slack = 2 * (w.cols + 1) * 0x1p-24 * magnitude + w.cols * 0x1p-149;
      ASSERT_NEAR(static_cast<double>(out[i]), sum, slack)
          << w.rows << " rows, " << w.cols << " columns: row " << r << ", token " << t;
    }
  }
};

TEST_P(FloatMatMul, AgreesWithDoubleForEveryShape) {
  for (const int32_t rows : {1, 16, 31, 32, 33, 65}) {
    for (const int32_t cols : {1, 2, 15, 16, 17, 31, 32, 33, 65, 97, 512}) {
      const Weights w(dtype(), rows, cols, 11u + static_cast<uint32_t>(rows));
      const std::vector<float> x = RandomFloats(static_cast<size_t>(14 * cols), 3);
      ExpectProducts(w, x, Multiply(table(), w, x));
    }
  }
}

// Guarantee 1: an element's bits don't depend on how many tokens or rows are computed with it.
TEST_P(FloatMatMul, ElementsDoNotDependOnTheTile) {
  constexpr int32_t kMost = 40;
  const Weights w(dtype(), 65, 99, 21);
  const std::vector<float> x = RandomFloats(static_cast<size_t>(kMost * w.cols), 4);
  const std::vector<float> all = Multiply(table(), w, x);
  for (int32_t n = 1; n < kMost; ++n) {
    const std::vector<float> some =
        Multiply(table(), w, std::vector<float>(x.begin(), x.begin() + n * w.cols));
    for (size_t i = 0; i < some.size(); ++i)
      ASSERT_TRUE(SameBits(some[i], all[i])) << n << " " << i;
  }
}

TEST_P(FloatMatMul, SetsWithAFusedMultiplyAddAgreeBitForBit) {
  if (std::string(table().name) == "generic") GTEST_SKIP() << "rounds twice";
  const Weights w(dtype(), 48, 97, 71);
  const std::vector<float> x = RandomFloats(static_cast<size_t>(7 * w.cols), 5);
  const std::vector<float> out = Multiply(table(), w, x);
  for (const KernelTable* other : testing::RunnableTables()) {
    if (std::string(other->name) == "generic") continue;
    const std::vector<float> got = Multiply(*other, w, x);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_TRUE(SameBits(out[i], got[i])) << other->name << " " << i;
  }
}

TEST_P(FloatMatMul, ExtremesStayWithinTheBound) {
  constexpr int32_t kCols = 97;
  std::vector<Weights> all;
  all.emplace_back(dtype(), 32, kCols, 41u);
  // The largest number, denormals, the smallest normal and zeros of both signs, of float16: as what
  // they are in float32, too.
  for (const int pattern : {0x7bff, 0xfbff, 0x0001, 0x83ff, 0x0400, 0x0000, 0x8000}) {
    const auto bits = static_cast<uint16_t>(pattern);
    std::vector<uint8_t> stored(*DTypeBytes(dtype(), 32 * kCols));
    const float value = HalfToFloat(bits);
    const size_t size = dtype() == DType::kF16 ? sizeof(bits) : sizeof(value);
    for (size_t i = 0; i < stored.size(); i += size) {
      if (dtype() == DType::kF16) {
        std::memcpy(&stored[i], &bits, size);
      } else {
        std::memcpy(&stored[i], &value, size);
      }
    }
    all.emplace_back(dtype(), 32, kCols, stored);
  }
  std::vector<float> x(7 * size_t{kCols});
  for (size_t i = 0; i < x.size(); ++i) {
    const float values[7] = {1e5f,   -1e5f,    i % 2 == 0 ? 1e5f : -1e5f, 1e-30f, 0.0f,
                             1e-40f, 0x1p-126f};
    x[i] = values[i / kCols];
  }
  for (const Weights& w : all) ExpectProducts(w, x, Multiply(table(), w, x));
}

TEST_P(FloatMatMul, WhatIsNotFiniteStaysNotFinite) {
  const Weights w(dtype(), 32, 65, 61);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = RandomFloats(3 * 65, 12);
    x[2 * 65 - 1] = bad;  // the last column of the second token
    const std::vector<float> out = Multiply(table(), w, x);
    for (size_t r = 0; r < 32; ++r) {
      EXPECT_TRUE(std::isfinite(out[r]));
      EXPECT_FALSE(std::isfinite(out[32 + r]));
      EXPECT_TRUE(std::isfinite(out[64 + r]));
    }
  }
}

TEST_P(FloatMatMul, BiasWeightsAndIndirectRows) {
  const Weights w(dtype(), 40, 64, 51);
  const std::vector<float> x = RandomFloats(5 * 64, 6);
  const std::vector<float> plain = Multiply(table(), w, x);
  const std::vector<float> bias = RandomFloats(40, 7), weight = RandomFloats(3, 8);
  const int32_t x_rows[3] = {4, 0, 2}, out_rows[3] = {1, 3, 0};
  std::vector<float> out(4 * 40, 2.0f);
  FloatMatMulArgs args = Arguments(w, x, 3, out);
  args.x_rows = x_rows;
  args.out_rows = out_rows;
  args.bias = bias.data();
  args.out_weight = weight.data();
  args.next = w.panels.get();
  table().float_matmul[static_cast<size_t>(dtype())](args);
  for (size_t t = 0; t < 3; ++t) {
    for (size_t r = 0; r < 40; ++r) {
      const float value = plain[static_cast<size_t>(x_rows[t]) * 40 + r] + bias[r];
      EXPECT_NEAR(out[static_cast<size_t>(out_rows[t]) * 40 + r], 2.0f + weight[t] * value,
                  1e-5f * (2.0f + std::abs(weight[t] * value)));
    }
  }
  for (size_t r = 0; r < 40; ++r) EXPECT_EQ(out[2 * 40 + r], 2.0f);  // nobody's row
}

bool HasFloatPanels(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kF32;
}
INSTANTIATE_TEST_SUITE_P(All, FloatMatMul,
                         ::testing::ValuesIn(testing::TablesAndTypes(HasFloatPanels)),
                         testing::TableAndTypeName);

}  // namespace
}  // namespace colibri
