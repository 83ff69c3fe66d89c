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
#include "tensor/half.h"

namespace colibri {
namespace {

using testing::RandomFloats;
using testing::TableAndType;
using Weights = testing::PanelWeights;

bool SameBits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Rows of rounded activations, with no element more than they need.
struct Rounded {
  Rounded(const KernelTable& table, const std::vector<float>& x, int32_t k)
      : stride(BFloat16RowStride(k)), bits(x.size() / static_cast<size_t>(k) * stride, 0x7fff) {
    for (size_t t = 0; t < bits.size() / stride; ++t) {
      uint16_t* const row = bits.data() + t * stride;
      table.round_row(x.data() + t * static_cast<size_t>(k), k, row,
                      reinterpret_cast<float*>(row + BFloat16RowElements(k)));
    }
  }
  double value(int32_t token, int32_t col) const {
    return static_cast<double>(
        BFloat16ToFloat(bits[static_cast<size_t>(token) * stride + static_cast<size_t>(col)]));
  }
  size_t stride;
  std::vector<uint16_t> bits;
};

class Bf16MatMul : public ::testing::TestWithParam<TableAndType> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }
  DType dtype() const { return GetParam().dtype; }
  // Numbers of columns: whole blocks, or any where the type has none.
  std::vector<int32_t> Columns() const {
    if (dtype() == DType::kBF16) return {1, 2, 31, 32, 33, 63, 64, 65, 97, 160, 512};
    const int32_t block = FindPanelFormat(dtype())->block_columns;
    return {block, 2 * block, 5 * block};
  }

  Bf16MatMulArgs Arguments(const Weights& w, const Rounded& x, int32_t n_tokens,
                           std::vector<float>& out) const {
    Bf16MatMulArgs args{};
    args.w = w.panels.get();
    args.n_rows = w.rows;
    args.k = w.cols;
    args.x = x.bits.data();
    args.x_stride = x.stride;
    args.n_tokens = n_tokens;
    args.out = out.data();
    args.out_stride = static_cast<size_t>(w.rows);
    return args;
  }
  std::vector<float> Multiply(const KernelTable& kernels, const Weights& w, const Rounded& x,
                              int32_t n_tokens) const {
    std::vector<float> out(static_cast<size_t>(n_tokens) * static_cast<size_t>(w.rows), NAN);
    kernels.bf16_matmul[static_cast<size_t>(dtype())](Arguments(w, x, n_tokens, out));
    return out;
  }

  void ExpectSetsAgree(const Weights& w) const;

  // Against the sum in double of exact weights and rounded activations: a float32 sum of k products
  // errs by k half units of its last place of their magnitude, and what is flushed to zero is below
  // the smallest normal number. A code and a minimum of opposite sign cancel: each is some 32 times
  // as large as the weight at most.
  void ExpectProducts(const Weights& w, const Rounded& x, int32_t n_tokens,
                      const std::vector<float>& out) const {
    for (int32_t t = 0; t < n_tokens; ++t) {
      for (int32_t r = 0; r < w.rows; ++r) {
        double sum = 0, magnitude = 0, flushed = 0;
        for (int32_t c = 0; c < w.cols; ++c) {
          const auto weight = static_cast<double>(w.value(r, c));
          const double product = weight * x.value(t, c);
          sum += product;
          magnitude += std::abs(product);
          flushed += std::abs(weight) + std::abs(x.value(t, c)) + 1;
        }
        const double parts = dtype() == DType::kBF16 ? 1 : 32;
        const double slack = parts * ((w.cols + 2) * 0x1p-24 * magnitude + 0x1p-126 * flushed);
        ASSERT_NEAR(out[static_cast<size_t>(t * w.rows + r)], sum, slack)
            << w.rows << " rows, " << w.cols << " columns, " << n_tokens << " tokens: row " << r
            << ", token " << t;
      }
    }
  }
};

// Scales are added by a fused multiply-add: but for `generic`, which rounds twice there.
void Bf16MatMul::ExpectSetsAgree(const Weights& w) const {
  const bool rounds_twice = dtype() != DType::kBF16;
  if (rounds_twice && std::string(table().name) == "generic") return;
  const Rounded x(table(), RandomFloats(7 * static_cast<size_t>(w.cols), 5), w.cols);
  const std::vector<float> out = Multiply(table(), w, x, 7);
  for (const KernelTable* other : testing::RunnableTables()) {
    if (rounds_twice && std::string(other->name) == "generic") continue;
    if (!rounds_twice && std::string(other->name) == "amx") continue;
    const Rounded theirs(*other, RandomFloats(7 * static_cast<size_t>(w.cols), 5), w.cols);
    ASSERT_EQ(theirs.bits, x.bits) << other->name;
    const std::vector<float> got = Multiply(*other, w, theirs, 7);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_TRUE(SameBits(out[i], got[i])) << other->name << " " << i;
  }
}

TEST_P(Bf16MatMul, AgreesWithDoubleForEveryShape) {
  for (const int32_t rows : {1, 16, 31, 32, 33, 65}) {
    for (const int32_t cols : Columns()) {
      const Weights w(dtype(), rows, cols, 11u + static_cast<uint32_t>(rows));
      const int32_t n_tokens = 13;
      const Rounded x(table(), RandomFloats(static_cast<size_t>(n_tokens * cols), 3), cols);
      ExpectProducts(w, x, n_tokens, Multiply(table(), w, x, n_tokens));
    }
  }
}

// Guarantee 1: an element's bits don't depend on how many tokens or rows are computed with it.
TEST_P(Bf16MatMul, ElementsDoNotDependOnTheTile) {
  const int32_t most = 40;
  const Weights w(dtype(), 65, Columns()[1] * 3, 21);
  const Rounded x(table(), RandomFloats(static_cast<size_t>(most * w.cols), 4), w.cols);
  const std::vector<float> all = Multiply(table(), w, x, most);
  for (int32_t n = 1; n < most; ++n) {
    const std::vector<float> some = Multiply(table(), w, x, n);
    for (size_t i = 0; i < some.size(); ++i)
      ASSERT_TRUE(SameBits(some[i], all[i])) << n << " " << i;
  }
}

// A product of two bfloat16 is exact in float32, so that fusing shows nowhere.
TEST_P(Bf16MatMul, SetsAgreeBitForBitWhereNothingIsDenormal) {
  if (dtype() == DType::kBF16 && std::string(table().name) == "amx")
    GTEST_SKIP() << "adds in an order of its own";
  if (dtype() != DType::kBF16) return ExpectSetsAgree(Weights(dtype(), 48, Columns()[1], 71));
  std::vector<float> values = RandomFloats(48 * 96, 31);
  std::vector<uint8_t> stored(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof(bits));
    bits >>= 16;
    std::memcpy(&stored[2 * i], &bits, 2);
  }
  ExpectSetsAgree(Weights(dtype(), 48, 96, stored));
}

TEST_P(Bf16MatMul, ExtremesStayWithinTheBound) {
  const int32_t cols = Columns().back();
  std::vector<Weights> all;
  all.emplace_back(dtype(), 32, cols, 41u);
  if (dtype() == DType::kBF16) {
    // Denormals, the smallest normal, large ones and zeros of both signs.
    for (const uint32_t fill : {0x0001u, 0x807fu, 0x0080u, 0x5f00u, 0xdf7fu, 0x0000u, 0x8000u}) {
      std::vector<uint8_t> stored(static_cast<size_t>(32 * cols) * 2);
      for (size_t i = 0; i < stored.size(); i += 2) std::memcpy(&stored[i], &fill, 2);
      all.emplace_back(dtype(), 32, cols, stored);
    }
  }
  std::vector<float> x(7 * static_cast<size_t>(cols));
  for (size_t i = 0; i < x.size(); ++i) {
    const float values[7] = {1e5f,   -1e5f,    i % 2 == 0 ? 1e5f : -1e5f, 1e-30f, 0.0f,
                             1e-40f, 0x1p-126f};
    x[i] = values[i / static_cast<size_t>(cols)];
  }
  const Rounded rounded(table(), x, cols);
  for (const Weights& w : all) ExpectProducts(w, rounded, 7, Multiply(table(), w, rounded, 7));
}

TEST_P(Bf16MatMul, WhatIsNotFiniteStaysNotFinite) {
  const int32_t cols = Columns()[2];
  const Weights w(dtype(), 32, cols, 61);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()}) {
    std::vector<float> x = RandomFloats(3 * static_cast<size_t>(cols), 12);
    x[static_cast<size_t>(2 * cols - 1)] = bad;  // the last column of the second token
    const std::vector<float> out = Multiply(table(), w, Rounded(table(), x, cols), 3);
    for (size_t r = 0; r < 32; ++r) {
      EXPECT_TRUE(std::isfinite(out[r]));
      EXPECT_FALSE(std::isfinite(out[32 + r]));
      EXPECT_TRUE(std::isfinite(out[64 + r]));
    }
  }
}

TEST_P(Bf16MatMul, BiasWeightsAndIndirectRows) {
  const Weights w(dtype(), 40, Columns()[0], 51);
  const Rounded x(table(), RandomFloats(5 * static_cast<size_t>(w.cols), 6), w.cols);
  const std::vector<float> plain = Multiply(table(), w, x, 5);
  const std::vector<float> bias = RandomFloats(40, 7), weight = RandomFloats(3, 8);
  const int32_t x_rows[3] = {4, 0, 2}, out_rows[3] = {1, 3, 0};
  std::vector<float> out(4 * 40, 2.0f);
  Bf16MatMulArgs args = Arguments(w, x, 3, out);
  args.x_rows = x_rows;
  args.out_rows = out_rows;
  args.bias = bias.data();
  args.out_weight = weight.data();
  args.next = w.panels.get();
  table().bf16_matmul[static_cast<size_t>(dtype())](args);
  for (size_t t = 0; t < 3; ++t) {
    for (size_t r = 0; r < 40; ++r) {
      const float value = plain[static_cast<size_t>(x_rows[t]) * 40 + r] + bias[r];
      EXPECT_NEAR(out[static_cast<size_t>(out_rows[t]) * 40 + r], 2.0f + weight[t] * value,
                  1e-5f * (2.0f + std::abs(weight[t] * value)));
    }
  }
  for (size_t r = 0; r < 40; ++r) EXPECT_EQ(out[2 * 40 + r], 2.0f);  // nobody's row
}

INSTANTIATE_TEST_SUITE_P(All, Bf16MatMul,
                         ::testing::ValuesIn(testing::TablesAndTypes([](DType dtype) {
                           const auto& entries = AllKernels().front().table->bf16_matmul;
                           return entries[static_cast<size_t>(dtype)] != nullptr;
                         })),
                         testing::TableAndTypeName);

class RoundRow : public ::testing::TestWithParam<const KernelTable*> {};

TEST_P(RoundRow, RoundsToTheNearestAndTiesToEven) {
  std::mt19937 random(13);
  std::vector<float> x(4096);
  for (size_t i = 0; i < x.size(); ++i) {
    auto bits = static_cast<uint32_t>(random());
    if (i % 4 == 0) bits = (bits & 0xffff0000u) | 0x8000u;  // a tie
    std::memcpy(&x[i], &bits, sizeof(bits));
  }
  std::vector<uint16_t> out(x.size());
  std::vector<float> sums(x.size() / 16);
  GetParam()->round_row(x.data(), static_cast<int32_t>(x.size()), out.data(), sums.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const float rounded = BFloat16ToFloat(out[i]);
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(rounded));
      continue;
    }
    if (std::isinf(x[i])) {
      EXPECT_EQ(rounded, x[i]);
      continue;
    }
    uint32_t bits;
    std::memcpy(&bits, &x[i], sizeof(bits));
    const auto down = static_cast<uint16_t>(bits >> 16), up = static_cast<uint16_t>(down + 1);
    // The number after the largest is infinity, which stands for 2^128 here.
    const double above = std::isinf(BFloat16ToFloat(up)) ? std::copysign(0x1p128, x[i])
                                                         : static_cast<double>(BFloat16ToFloat(up));
    const double to_down = std::abs(static_cast<double>(x[i]) -
                                    static_cast<double>(BFloat16ToFloat(down))),
                 to_up = std::abs(static_cast<double>(x[i]) - above);
    const uint16_t nearest = to_down < to_up   ? down
                             : to_up < to_down ? up
                             : down % 2 == 0   ? down
                                               : up;
    ASSERT_EQ(out[i], nearest) << x[i];
  }
}

TEST_P(RoundRow, NanStaysNanAndTheLargestBecomeInfinity) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0xff808000u, 0x7fc00000u}) {
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    uint16_t out[32];
    float sums[2];
    GetParam()->round_row(&x, 1, out, sums);
    EXPECT_TRUE(std::isnan(sums[0]) && !std::isnan(sums[1]));
    EXPECT_TRUE(std::isnan(BFloat16ToFloat(out[0]))) << std::hex << bits;
  }
  const float most[2] = {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()};
  uint16_t out[32];
  float sums[2];
  GetParam()->round_row(most, 2, out, sums);
  EXPECT_EQ(BFloat16ToFloat(out[0]), std::numeric_limits<float>::infinity());
  EXPECT_EQ(BFloat16ToFloat(out[1]), -std::numeric_limits<float>::infinity());
}

TEST_P(RoundRow, FillsTheLastGroupWithZerosAndNoMore) {
  for (int32_t k = 1; k <= 70; ++k) {
    const std::vector<float> x(static_cast<size_t>(k), 1.5f);
    std::vector<uint16_t> out(BFloat16RowElements(k) + 1, 0x1234);
    std::vector<float> sums(BFloat16RowElements(k) / 16 + 1, 7.0f);
    GetParam()->round_row(x.data(), k, out.data(), sums.data());
    for (size_t i = 0; i + 1 < sums.size(); ++i) {
      const int32_t n = std::clamp(k - 16 * static_cast<int32_t>(i), 0, 16);
      ASSERT_EQ(sums[i], 1.5f * static_cast<float>(n)) << k << " " << i;
    }
    EXPECT_EQ(sums.back(), 7.0f);
    for (size_t i = 0; i + 1 < out.size(); ++i)
      ASSERT_EQ(out[i], i < static_cast<size_t>(k) ? 0x3fc0 : 0) << k << " " << i;
    EXPECT_EQ(out.back(), 0x1234);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundRow, ::testing::ValuesIn(testing::RunnableTables()),
                         testing::TableName);

}  // namespace
}  // namespace colibri
