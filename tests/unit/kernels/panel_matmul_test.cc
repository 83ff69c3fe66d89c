#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "support/kernel_data.h"
#include "support/kernel_tables.h"
#include "support/panel_weights.h"
#include "tensor/dequantize.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

using testing::RandomFloats;
using testing::RandomWeights;
using testing::TableAndType;
using Weights = testing::PanelWeights;

bool SameBits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

std::vector<ActivationGroup> Quantize(const KernelTable& table, const std::vector<float>& x,
                                      int32_t k) {
  std::vector<ActivationGroup> out(x.size() / kGroupColumns);
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(k))
    table.quantize_row(x.data() + at, k, out.data() + at / kGroupColumns);
  return out;
}

class PanelMatMul : public ::testing::TestWithParam<TableAndType> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }
  DType dtype() const { return GetParam().dtype; }
  int32_t Block() const { return FindPanelFormat(dtype())->block_columns; }

  // What the tests change of a product of all rows.
  PanelMatMulArgs Arguments(const Weights& w, const std::vector<ActivationGroup>& x,
                            int32_t n_tokens, std::vector<float>& out) const {
    PanelMatMulArgs args{};
    args.w = w.panels.get();
    args.n_rows = w.rows;
    args.k = w.cols;
    args.x = x.data();
    args.x_stride = static_cast<size_t>(w.cols / kGroupColumns);
    args.n_tokens = n_tokens;
    args.out = out.data();
    args.out_stride = static_cast<size_t>(w.rows);
    return args;
  }
  std::vector<float> Multiply(const KernelTable& kernels, const Weights& w,
                              const std::vector<ActivationGroup>& x, int32_t n_tokens) const {
    std::vector<float> out(static_cast<size_t>(n_tokens) * static_cast<size_t>(w.rows), NAN);
    kernels.panel_matmul[static_cast<size_t>(dtype())](Arguments(w, x, n_tokens, out));
    return out;
  }
  std::vector<float> Multiply(const Weights& w, const std::vector<ActivationGroup>& x,
                              int32_t n_tokens) const {
    return Multiply(table(), w, x, n_tokens);
  }

  // Against the sum in double of exact weights and the activations as they were quantised.
  void ExpectProducts(const Weights& w, const std::vector<ActivationGroup>& x, int32_t n_tokens,
                      const std::vector<float>& out) const {
    for (int32_t t = 0; t < n_tokens; ++t) {
      for (int32_t r = 0; r < w.rows; ++r) {
        double sum = 0, magnitude = 0;
        for (int32_t c = 0; c < w.cols; ++c) {
          const ActivationGroup& g = x[static_cast<size_t>((t * w.cols + c) / kGroupColumns)];
          const double product =
              static_cast<double>(w.values[static_cast<size_t>(r) * static_cast<size_t>(w.cols) +
                                           static_cast<size_t>(c)]) *
              static_cast<double>(g.scale) * static_cast<double>(g.q[c % kGroupColumns]);
          sum += product;
          magnitude += std::abs(product);
        }
        // A minimum and a code of opposite sign cancel: 32 terms of it are behind each.
        const double slack = 16 * 6e-8 * (magnitude + 1e-30) * (1 + w.cols / 32.0);
        ASSERT_NEAR(out[static_cast<size_t>(t * w.rows + r)], sum, slack)
            << w.rows << " rows, " << w.cols << " columns, " << n_tokens << " tokens: row " << r
            << ", token " << t;
      }
    }
  }
};

TEST_P(PanelMatMul, AgreesWithDoubleForEveryShape) {
  for (const int32_t rows : {1, 16, 31, 32, 33, 65}) {
    for (const int32_t blocks : {1, 2, 5}) {
      const Weights w(dtype(), rows, blocks * Block(), 11u + static_cast<uint32_t>(rows));
      const int32_t n_tokens = 13;
      const auto x = Quantize(
          table(), RandomFloats(static_cast<size_t>(n_tokens) * static_cast<size_t>(w.cols), 3),
          w.cols);
      ExpectProducts(w, x, n_tokens, Multiply(w, x, n_tokens));
    }
  }
}

// Guarantee 1: an element's bits don't depend on how many tokens or rows are computed with it.
TEST_P(PanelMatMul, ElementsDoNotDependOnTheTile) {
  const int32_t most = 40;
  const Weights w(dtype(), 65, 2 * Block(), 21);
  const auto x = Quantize(
      table(), RandomFloats(static_cast<size_t>(most) * static_cast<size_t>(w.cols), 4), w.cols);
  const std::vector<float> all = Multiply(w, x, most);
  for (int32_t n = 1; n < most; ++n) {
    const std::vector<float> some = Multiply(w, x, n);
    for (size_t i = 0; i < some.size(); ++i)
      ASSERT_TRUE(SameBits(some[i], all[i])) << n << " " << i;
  }
}

TEST_P(PanelMatMul, SetsWithFusedMultiplyAddAgreeBitForBit) {
  if (std::string(table().name) == "generic") GTEST_SKIP() << "rounds each product";
  const Weights w(dtype(), 48, 3 * Block(), 31);
  const auto x = Quantize(table(), RandomFloats(7 * static_cast<size_t>(w.cols), 5), w.cols);
  const std::vector<float> out = Multiply(w, x, 7);
  for (const KernelTable* other : testing::RunnableTables()) {
    if (std::string(other->name) == "generic") continue;
    const auto xs = Quantize(*other, RandomFloats(7 * static_cast<size_t>(w.cols), 5), w.cols);
    ASSERT_EQ(std::memcmp(xs.data(), x.data(), x.size() * sizeof(x[0])), 0) << other->name;
    const std::vector<float> theirs = Multiply(*other, w, xs, 7);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_TRUE(SameBits(out[i], theirs[i])) << other->name << " " << i;
  }
}

TEST_P(PanelMatMul, ExtremeCodesAndActivationsStayExact) {
  // All codes at either end, all activations at either end: the integer sums at their largest.
  for (const uint8_t fill : {uint8_t{0x00}, uint8_t{0xff}, uint8_t{0x80}, uint8_t{0x7f}}) {
    const int32_t cols = 2 * Block();
    std::vector<uint8_t> stored = RandomWeights(dtype(), 32 * static_cast<size_t>(cols), 41);
    const DTypeInfo& info = GetDTypeInfo(dtype());
    for (size_t at = 0; at < stored.size(); at += info.block_bytes) {
      std::vector<uint8_t> block(
          stored.begin() + static_cast<std::ptrdiff_t>(at),
          stored.begin() + static_cast<std::ptrdiff_t>(at + info.block_bytes));
      // The scales stay as they are where they are finite: try, and keep the block if not.
      for (size_t i = 4; i + 4 < info.block_bytes; ++i) block[i] = fill;
      std::vector<float> values(info.block_elements);
      DequantizeReference(dtype(), block.data(), values.data(), values.size());
      if (std::all_of(values.begin(), values.end(), [](float v) { return std::abs(v) < 1e6f; }))
        std::copy(block.begin(), block.end(), stored.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const Weights w(dtype(), 32, cols, stored);
    std::vector<float> x(6 * static_cast<size_t>(cols));
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t token = i / static_cast<size_t>(cols);
      x[i] = token == 0   ? 1e5f
             : token == 1 ? -1e5f
             : token == 2 ? (i % 2 == 0 ? 1e5f : -1e5f)
             : token == 3 ? 1e-30f
             : token == 4 ? 0.0f
                          : 1e-42f;
    }
    const auto groups = Quantize(table(), x, cols);
    ExpectProducts(w, groups, 6, Multiply(w, groups, 6));
  }
}

TEST_P(PanelMatMul, BiasWeightsAndIndirectRows) {
  const Weights w(dtype(), 40, Block(), 51);
  const auto x = Quantize(table(), RandomFloats(5 * static_cast<size_t>(w.cols), 6), w.cols);
  const std::vector<float> plain = Multiply(w, x, 5);
  const std::vector<float> bias = RandomFloats(40, 7), weight = RandomFloats(3, 8);
  const int32_t x_rows[3] = {4, 0, 2}, out_rows[3] = {1, 3, 0};
  std::vector<float> out(4 * 40, 2.0f);
  PanelMatMulArgs args = Arguments(w, x, 3, out);
  args.x_rows = x_rows;
  args.out_rows = out_rows;
  args.bias = bias.data();
  args.out_weight = weight.data();
  table().panel_matmul[static_cast<size_t>(dtype())](args);
  for (size_t t = 0; t < 3; ++t) {
    for (size_t r = 0; r < 40; ++r) {
      const float value = plain[static_cast<size_t>(x_rows[t]) * 40 + r] + bias[r];
      EXPECT_NEAR(out[static_cast<size_t>(out_rows[t]) * 40 + r], 2.0f + weight[t] * value,
                  1e-5f * (2.0f + std::abs(weight[t] * value)));
    }
  }
  for (size_t r = 0; r < 40; ++r) EXPECT_EQ(out[2 * 40 + r], 2.0f);  // nobody's row
}

INSTANTIATE_TEST_SUITE_P(All, PanelMatMul,
                         ::testing::ValuesIn(testing::TablesAndTypes([](DType dtype) {
                           return FindPanelFormat(dtype) != nullptr &&
                                  FindPanelFormat(dtype)->numbers == PanelNumbers::kCodes;
                         })),
                         testing::TableAndTypeName);

class QuantizeRow : public ::testing::TestWithParam<const KernelTable*> {};

TEST_P(QuantizeRow, RoundsToTheNearestOf255Steps) {
  const std::vector<float> x = RandomFloats(320, 9, 3.0f);
  std::vector<ActivationGroup> groups(10);
  GetParam()->quantize_row(x.data(), 320, groups.data());
  for (size_t g = 0; g < groups.size(); ++g) {
    float max = 0;
    for (size_t i = 0; i < 32; ++i) max = std::max(max, std::abs(x[32 * g + i]));
    EXPECT_EQ(groups[g].scale, max / 127.0f);
    int32_t sums[2] = {0, 0};
    for (size_t i = 0; i < 32; ++i) {
      const float value = groups[g].scale * static_cast<float>(groups[g].q[i]);
      EXPECT_LE(std::abs(value - x[32 * g + i]), 0.5001f * groups[g].scale);
      sums[i / 16] += groups[g].q[i];
    }
    EXPECT_EQ(groups[g].negative_sum, -(sums[0] + sums[1]));
    EXPECT_EQ(groups[g].negative_half_sum[0], -sums[0]);
    EXPECT_EQ(groups[g].negative_half_sum[1], -sums[1]);
    EXPECT_EQ(groups[g].scaled_sum, groups[g].scale * static_cast<float>(sums[0] + sums[1]));
    EXPECT_EQ(groups[g].scaled_half_sum[1], groups[g].scale * static_cast<float>(sums[1]));
  }
}

TEST_P(QuantizeRow, WhatIsNotFiniteMakesItsGroupNaN) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {size_t{0}, size_t{17}, size_t{31}}) {
      std::vector<float> x = RandomFloats(64, 10);
      x[32 + at] = bad;
      std::vector<ActivationGroup> groups(2);
      GetParam()->quantize_row(x.data(), 64, groups.data());
      EXPECT_TRUE(std::isfinite(groups[0].scale));
      EXPECT_TRUE(std::isnan(groups[1].scale));
      EXPECT_TRUE(std::isnan(groups[1].scaled_sum));
    }
  }
}

TEST_P(QuantizeRow, TinyValuesAreZeros) {
  const std::vector<float> x(32, 0x1p-130f);
  ActivationGroup group;
  GetParam()->quantize_row(x.data(), 32, &group);
  EXPECT_EQ(group.scale, 0.0f);
  EXPECT_EQ(group.negative_sum, 0);
  for (const int8_t q : group.q) EXPECT_EQ(q, 0);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeRow, ::testing::ValuesIn(testing::RunnableTables()),
                         testing::TableName);

}  // namespace
}  // namespace colibri
