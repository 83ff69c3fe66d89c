// The kernels for AMX. Few machines have it: their code is compiled a second time with tiles of
// plain C++ (tiles_emulated.inl.h) and held here against the tables that every machine runs, and
// against double precision. Where the CPU has AMX, the other tests of this program run its table
// too.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/emulated_tiles.h"
#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "support/kernel_data.h"
#include "support/kernel_tables.h"
#include "support/panel_weights.h"
#include "tensor/half.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

using testing::RandomFloats;
using Weights = testing::PanelWeights;

// The full table of this name, or null where it cannot run.
const KernelTable* Runnable(const std::string& name) {
  for (const KernelTable* table : testing::RunnableTables()) {
    if (name == table->name) return table;
  }
  return nullptr;
}

// Kernels with tiles, and the table whose vectors they have.
struct TileTable {
  const KernelTable* tiles;
  const KernelTable* vectors;
};

std::vector<TileTable> TileTables() {
  std::vector<TileTable> out = {{&testing::kEmulatedTilesGeneric, Runnable("generic")}};
#ifdef COLIBRI_TEST_TILES_AVX512
  // Sets with a fused multiply-add give the same bits: avx512vnni stands for them all.
  const char* const name = Runnable("avx512vnni") != nullptr ? "avx512vnni" : "avx512";
  if (const KernelTable* vectors = Runnable(name))
    out.push_back({&testing::kEmulatedTilesAvx512, vectors});
#endif
  if (const KernelTable* amx = Runnable("amx")) out.push_back({amx, Runnable("avx512vnni")});
  return out;
}

struct TableAndType {
  TileTable table;
  DType dtype;
};
std::vector<TableAndType> PanelTypes() {
  std::vector<TableAndType> out;
  for (const TileTable& table : TileTables()) {
    for (size_t i = 0; i < kNumDTypes; ++i) {
      if (table.vectors->panel_matmul[i] != nullptr) out.push_back({table, static_cast<DType>(i)});
    }
  }
  return out;
}

class TilePanelMatMul : public ::testing::TestWithParam<TableAndType> {
 protected:
  const KernelTable& tiles() const { return *GetParam().table.tiles; }
  const KernelTable& vectors() const { return *GetParam().table.vectors; }
  DType dtype() const { return GetParam().dtype; }
  int32_t Block() const { return FindPanelFormat(dtype())->block_columns; }

  std::vector<ActivationGroup> Quantize(const std::vector<float>& x, int32_t k) const {
    std::vector<ActivationGroup> out(x.size() / kGroupColumns);
    for (size_t at = 0; at < x.size(); at += static_cast<size_t>(k))
      vectors().quantize_row(x.data() + at, k, out.data() + at / kGroupColumns);
    return out;
  }
  PanelMatMulArgs Arguments(const Weights& w, const std::vector<ActivationGroup>& x,
                            int32_t n_tokens) const {
    PanelMatMulArgs args{};
    args.w = w.panels.get();
    args.n_rows = w.rows;
    args.k = w.cols;
    args.x = x.data();
    args.x_stride = static_cast<size_t>(w.cols / kGroupColumns);
    args.n_tokens = n_tokens;
    args.out_stride = static_cast<size_t>(w.rows) + 3;
    return args;
  }
  // Both tables compute the same call and leave the same bits behind.
  void ExpectSameBits(PanelMatMulArgs args, size_t out_rows) const {
    std::vector<float> by_tiles(out_rows * args.out_stride, 2.0f), by_vectors = by_tiles;
    args.out = by_tiles.data();
    tiles().panel_matmul[static_cast<size_t>(dtype())](args);
    args.out = by_vectors.data();
    vectors().panel_matmul[static_cast<size_t>(dtype())](args);
    for (size_t i = 0; i < by_tiles.size(); ++i) {
      ASSERT_EQ(std::memcmp(&by_tiles[i], &by_vectors[i], sizeof(float)), 0)
          << args.n_rows << " rows, " << args.k << " columns, " << args.n_tokens
          << " tokens: " << i % args.out_stride << " of token " << i / args.out_stride << ": "
          << by_tiles[i] << " and " << by_vectors[i];
    }
  }
  void ExpectSameBits(int32_t rows, int32_t blocks, int32_t n_tokens) const {
    const Weights w(dtype(), rows, blocks * Block(), static_cast<uint32_t>(rows + n_tokens));
    std::vector<float> x = RandomFloats(static_cast<size_t>(n_tokens * w.cols), 3);
    const auto groups = Quantize(x, w.cols);
    ExpectSameBits(Arguments(w, groups, n_tokens), static_cast<size_t>(n_tokens));
  }
};

TEST_P(TilePanelMatMul, EveryNumberOfRowsGivesTheBitsOfVectors) {
  for (int32_t rows = 1; rows <= 65; ++rows) ExpectSameBits(rows, 1, 17);
}

TEST_P(TilePanelMatMul, EveryNumberOfTokensGivesTheBitsOfVectors) {
  for (int32_t n_tokens = 1; n_tokens <= 40; ++n_tokens) ExpectSameBits(33, 1, n_tokens);
  for (const int32_t n_tokens : {64, 65, 68, 69, 81}) ExpectSameBits(33, 1, n_tokens);
}

TEST_P(TilePanelMatMul, EveryNumberOfBlocksGivesTheBitsOfVectors) {
  for (int32_t blocks = 1; blocks <= 5; ++blocks) ExpectSameBits(40, blocks, 19);
}

TEST_P(TilePanelMatMul, ExtremeActivationsAndCodesGiveTheBitsOfVectors) {
  const int32_t n_tokens = 36, cols = 2 * Block();
  const Weights w(dtype(), 32, cols, 41);
  std::vector<float> x(static_cast<size_t>(n_tokens * cols));
  for (size_t i = 0; i < x.size(); ++i) {
    const float values[6] = {1e5f, -1e5f, i % 2 == 0 ? 1e5f : -1e5f, 1e-30f, 0.0f, 1e-42f};
    x[i] = values[i / static_cast<size_t>(cols) % 6];
  }
  const auto groups = Quantize(x, cols);
  ExpectSameBits(Arguments(w, groups, n_tokens), static_cast<size_t>(n_tokens));
  // All codes alike: the panels' bytes themselves, scales and all, as far as they are finite.
  for (const uint8_t fill : {uint8_t{0x00}, uint8_t{0x33}, uint8_t{0x3b}, uint8_t{0xbb}}) {
    const std::vector<uint8_t> stored(*DTypeBytes(dtype(), static_cast<uint64_t>(32 * cols)), fill);
    const Weights alike(dtype(), 32, cols, stored);
    ExpectSameBits(Arguments(alike, groups, n_tokens), static_cast<size_t>(n_tokens));
  }
}

TEST_P(TilePanelMatMul, BiasWeightsAndIndirectRowsGiveTheBitsOfVectors) {
  const Weights w(dtype(), 40, Block(), 51);
  const int32_t n_tokens = 35;  // two tiles and a rest
  const auto groups = Quantize(RandomFloats(static_cast<size_t>(50 * w.cols), 6), w.cols);
  const std::vector<float> bias = RandomFloats(40, 7), weight = RandomFloats(35, 8);
  std::vector<int32_t> x_rows(35), out_rows(35);
  for (int32_t t = 0; t < n_tokens; ++t) {
    x_rows[static_cast<size_t>(t)] = t * 7 % 50;
    out_rows[static_cast<size_t>(t)] = t * 11 % 37;  // no row twice
  }
  for (int parts = 0; parts < 16; ++parts) {
    PanelMatMulArgs args = Arguments(w, groups, n_tokens);
    if ((parts & 1) != 0) args.x_rows = x_rows.data();
    if ((parts & 2) != 0) args.out_rows = out_rows.data();
    if ((parts & 4) != 0) args.bias = bias.data();
    if ((parts & 8) != 0) args.out_weight = weight.data();
    args.next = w.panels.get();
    ExpectSameBits(args, 37);
  }
}

TEST_P(TilePanelMatMul, WhatIsNotFiniteStaysWithItsToken) {
  const Weights w(dtype(), 32, Block(), 61);
  const auto cols = static_cast<size_t>(w.cols);
  std::vector<float> x = RandomFloats(20 * cols, 12);
  x[18 * cols + 5] = std::numeric_limits<float>::infinity();
  const auto groups = Quantize(x, w.cols);
  std::vector<float> out(20 * 32);
  PanelMatMulArgs args = Arguments(w, groups, 20);
  args.out = out.data();
  args.out_stride = 32;
  tiles().panel_matmul[static_cast<size_t>(dtype())](args);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isfinite(out[i]), i / 32 != 18) << i;
}

INSTANTIATE_TEST_SUITE_P(All, TilePanelMatMul, ::testing::ValuesIn(PanelTypes()),
                         [](const auto& param) {
                           return std::string(param.param.table.tiles->name) + "_" +
                                  std::string(DTypeName(param.param.dtype));
                         });

class TileBf16MatMul : public ::testing::TestWithParam<TileTable> {
 protected:
  const KernelTable& tiles() const { return *GetParam().tiles; }

  struct Activations {
    size_t stride;
    std::vector<uint16_t> bits;
    double value(int32_t token, int32_t column) const {
      return static_cast<double>(
          BFloat16ToFloat(bits[static_cast<size_t>(token) * stride + static_cast<size_t>(column)]));
    }
  };
  Activations Round(const std::vector<float>& x, int32_t k) const {
    Activations out = {BFloat16RowStride(k), {}};
    out.bits.resize(x.size() / static_cast<size_t>(k) * out.stride);
    for (size_t t = 0; t < out.bits.size() / out.stride; ++t) {
      uint16_t* const row = out.bits.data() + t * out.stride;
      GetParam().vectors->round_row(x.data() + t * static_cast<size_t>(k), k, row,
                                    reinterpret_cast<float*>(row + BFloat16RowElements(k)));
    }
    return out;
  }
  Bf16MatMulArgs Arguments(const Weights& w, const Activations& x, int32_t n_tokens,
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
  std::vector<float> Multiply(const Weights& w, const Activations& x, int32_t n_tokens,
                              const std::vector<int32_t>& x_rows = {}) const {
    std::vector<float> out(static_cast<size_t>(n_tokens) * static_cast<size_t>(w.rows), NAN);
    Bf16MatMulArgs args = Arguments(w, x, n_tokens, out);
    if (!x_rows.empty()) args.x_rows = x_rows.data();
    tiles().bf16_matmul[static_cast<size_t>(DType::kBF16)](args);
    return out;
  }
  // As bf16_matmul_test.cc bounds all sets.
  void ExpectProducts(const Weights& w, const Activations& x, int32_t n_tokens) const {
    const std::vector<float> out = Multiply(w, x, n_tokens);
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
        ASSERT_NEAR(out[static_cast<size_t>(t * w.rows + r)], sum,
                    (w.cols + 2) * 0x1p-24 * magnitude + 0x1p-126 * flushed)
            << w.rows << " rows, " << w.cols << " columns, " << n_tokens << " tokens: row " << r
            << ", token " << t;
      }
    }
  }
  void ExpectProducts(int32_t rows, int32_t cols, int32_t n_tokens) const {
    const Weights w(DType::kBF16, rows, cols, static_cast<uint32_t>(rows + n_tokens));
    ExpectProducts(w, Round(RandomFloats(static_cast<size_t>(n_tokens * cols), 3), cols), n_tokens);
  }
};

TEST_P(TileBf16MatMul, AgreesWithDoubleForEveryShape) {
  for (int32_t rows = 1; rows <= 65; ++rows) ExpectProducts(rows, 65, 17);
  for (int32_t n_tokens = 1; n_tokens <= 40; ++n_tokens) ExpectProducts(33, 65, n_tokens);
  for (int32_t cols = 1; cols <= 97; ++cols) ExpectProducts(33, cols, 19);
  ExpectProducts(65, 1024, 40);
}

TEST_P(TileBf16MatMul, ElementsDoNotDependOnTheTile) {
  const int32_t most = 70;
  const Weights w(DType::kBF16, 65, 96, 21);
  const Activations x = Round(RandomFloats(static_cast<size_t>(most * w.cols), 4), w.cols);
  const std::vector<float> all = Multiply(w, x, most);
  for (int32_t n = 1; n < most; ++n) {
    const std::vector<float> some = Multiply(w, x, n);
    ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0) << n;
  }
  // Nor on the tokens' places: turned round, and each by itself.
  std::vector<int32_t> rows(most);
  for (int32_t t = 0; t < most; ++t) rows[static_cast<size_t>(t)] = most - 1 - t;
  const std::vector<float> turned = Multiply(w, x, most, rows);
  for (int32_t t = 0; t < most; ++t) {
    const float* const expected = all.data() + static_cast<size_t>(t * w.rows);
    const size_t bytes = static_cast<size_t>(w.rows) * sizeof(float);
    ASSERT_EQ(
        std::memcmp(turned.data() + static_cast<size_t>((most - 1 - t) * w.rows), expected, bytes),
        0)
        << t;
    ASSERT_EQ(std::memcmp(Multiply(w, x, 1, {t}).data(), expected, bytes), 0) << t;
  }
}

TEST_P(TileBf16MatMul, ExtremesStayWithinTheBound) {
  const int32_t cols = 96;
  std::vector<float> x(18 * static_cast<size_t>(cols));
  for (size_t i = 0; i < x.size(); ++i) {
    const float values[7] = {1e5f,   -1e5f,    i % 2 == 0 ? 1e5f : -1e5f, 1e-30f, 0.0f,
                             1e-40f, 0x1p-126f};
    x[i] = values[i / static_cast<size_t>(cols) % 7];
  }
  const Activations rounded = Round(x, cols);
  for (const uint32_t fill : {0x0001u, 0x807fu, 0x0080u, 0x5f00u, 0xdf7fu, 0x0000u, 0x8000u}) {
    std::vector<uint8_t> stored(static_cast<size_t>(32 * cols) * 2);
    for (size_t i = 0; i < stored.size(); i += 2) std::memcpy(&stored[i], &fill, 2);
    ExpectProducts(Weights(DType::kBF16, 32, cols, stored), rounded, 18);
  }
}

TEST_P(TileBf16MatMul, WhatIsNotFiniteStaysWithItsToken) {
  const Weights w(DType::kBF16, 32, 65, 61);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = RandomFloats(20 * 65, 12);
    x[19 * 65 - 1] = bad;  // the last column of token 18
    const std::vector<float> out = Multiply(w, Round(x, 65), 20);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isfinite(out[i]), i / 32 != 18) << i;
  }
}

TEST_P(TileBf16MatMul, BiasWeightsAndIndirectRows) {
  const Weights w(DType::kBF16, 40, 70, 51);
  const Activations x = Round(RandomFloats(50 * 70, 6), 70);
  const std::vector<float> plain = Multiply(w, x, 50);
  const std::vector<float> bias = RandomFloats(40, 7), weight = RandomFloats(35, 8);
  std::vector<int32_t> x_rows(35), out_rows(35);
  for (size_t t = 0; t < 35; ++t) {
    x_rows[t] = static_cast<int32_t>(t * 7 % 50);
    out_rows[t] = static_cast<int32_t>(t * 11 % 36);
  }
  std::vector<float> out(36 * 40, 2.0f);
  Bf16MatMulArgs args = Arguments(w, x, 35, out);
  args.x_rows = x_rows.data();
  args.out_rows = out_rows.data();
  args.bias = bias.data();
  args.out_weight = weight.data();
  args.next = w.panels.get();
  tiles().bf16_matmul[static_cast<size_t>(DType::kBF16)](args);
  std::vector<bool> is_written(36);
  for (size_t t = 0; t < 35; ++t) {
    is_written[static_cast<size_t>(out_rows[t])] = true;
    for (size_t r = 0; r < 40; ++r) {
      const float value = plain[static_cast<size_t>(x_rows[t]) * 40 + r] + bias[r];
      EXPECT_NEAR(out[static_cast<size_t>(out_rows[t]) * 40 + r], 2.0f + weight[t] * value,
                  1e-5f * (2.0f + std::abs(weight[t] * value)));
    }
  }
  for (size_t row = 0; row < 36; ++row) {
    if (is_written[row]) continue;
    for (size_t r = 0; r < 40; ++r) EXPECT_EQ(out[row * 40 + r], 2.0f);
  }
}

// Why one token takes tiles as well: the instruction's order of additions is not that of vectors.
TEST_P(TileBf16MatMul, RoundsInAnOrderOfItsOwn) {
  if (GetParam().tiles == Runnable("amx")) GTEST_SKIP() << "holds for the manual's order";
  const Weights w(DType::kBF16, 32, 256, 71);
  const Activations x = Round(RandomFloats(4 * 256, 9), 256);
  std::vector<float> by_vectors(4 * 32);
  GetParam().vectors->bf16_matmul[static_cast<size_t>(DType::kBF16)](
      Arguments(w, x, 4, by_vectors));
  EXPECT_NE(Multiply(w, x, 4), by_vectors);
}

INSTANTIATE_TEST_SUITE_P(All, TileBf16MatMul, ::testing::ValuesIn(TileTables()),
                         [](const auto& param) { return std::string(param.param.tiles->name); });

TEST(Amx, RunsHere) {
  const auto table = SelectKernels("amx");
  if (!table.ok()) GTEST_SKIP() << table.status().message();
  EXPECT_EQ(Runnable("amx"), *table);
}

}  // namespace
}  // namespace colibri
