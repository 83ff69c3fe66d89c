#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "support/kernel_data.h"
#include "support/kernel_tables.h"
#include "tensor/dequantize.h"

namespace colibri {
namespace {

using testing::RandomBlocks;
using testing::RandomFloats;
using testing::RandomWeights;
using testing::TableAndType;

bool SameBits(float a, float b) {
  if (std::isnan(a) && std::isnan(b)) return true;  // which NaN is nobody's promise
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Memory without slack at either end, so that AddressSanitizer sees every read beyond.
template <typename T>
std::unique_ptr<T[]> Exact(const std::vector<T>& values) {
  auto out = std::make_unique<T[]>(values.size());
  std::copy(values.begin(), values.end(), out.get());
  return out;
}

class ScratchBuffer {
 public:
  explicit ScratchBuffer(int32_t k)
      : data_(static_cast<float*>(
            std::aligned_alloc(64, (MatMulScratchFloats(k) * sizeof(float) + 63) / 64 * 64))) {
    // What a matmul finds in its scratch must not matter.
    std::fill_n(data_, MatMulScratchFloats(k), std::nanf(""));
  }
  ~ScratchBuffer() { std::free(data_); }
  ScratchBuffer(const ScratchBuffer&) = delete;
  ScratchBuffer& operator=(const ScratchBuffer&) = delete;
  float* data() const { return data_; }

 private:
  float* data_;
};

class MatMul : public ::testing::TestWithParam<TableAndType> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }
  DType dtype() const { return GetParam().dtype; }
  size_t index() const { return static_cast<size_t>(GetParam().dtype); }
  // A whole number of blocks near n, with a remainder where the type allows one.
  int32_t Columns(int32_t n) const {
    const auto block = static_cast<int32_t>(GetDTypeInfo(dtype()).block_elements);
    return (n + block - 1) / block * block;
  }
  size_t RowBytes(int32_t k) const { return *DTypeBytes(dtype(), static_cast<uint64_t>(k)); }
};

TEST_P(MatMul, DecodesExactlyAsTheReference) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const auto n = static_cast<size_t>(Columns(static_cast<int32_t>(1 + seed * 37)));
    const auto src = Exact(RandomBlocks(dtype(), n, seed));
    std::vector<float> want(n);
    const auto got = std::make_unique<float[]>(n);
    DequantizeReference(dtype(), src.get(), want.data(), n);
    table().decode[index()](src.get(), got.get(), n);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_TRUE(SameBits(got[i], want[i])) << i << ": " << got[i] << " for " << want[i];
    }
  }
}

TEST_P(MatMul, AgreesWithDoublePrecision) {
  for (const int32_t columns : {1, 100, 777}) {
    const int32_t k = Columns(columns), n_rows = 11, n_tokens = 5;
    const auto w = RandomWeights(dtype(), static_cast<size_t>(k) * n_rows, 1);
    const auto x = RandomFloats(static_cast<size_t>(k) * n_tokens, 2);
    std::vector<float> rows(static_cast<size_t>(k) * n_rows);
    DequantizeReference(dtype(), w.data(), rows.data(), rows.size());
    std::vector<float> out(static_cast<size_t>(n_rows) * n_tokens);
    const ScratchBuffer scratch(k);
    table().matmul[index()]({.w = w.data(),
                             .w_row_bytes = RowBytes(k),
                             .n_rows = n_rows,
                             .k = k,
                             .x = x.data(),
                             .x_stride = static_cast<size_t>(k),
                             .x_rows = nullptr,
                             .n_tokens = n_tokens,
                             .out = out.data(),
                             .out_stride = n_rows,
                             .scratch = scratch.data()});
    for (int32_t t = 0; t < n_tokens; ++t) {
      for (int32_t r = 0; r < n_rows; ++r) {
        double sum = 0, size = 0;
        for (int32_t c = 0; c < k; ++c) {
          const double product = static_cast<double>(rows[static_cast<size_t>(r * k + c)]) *
                                 static_cast<double>(x[static_cast<size_t>(t * k + c)]);
          sum += product;
          size += std::abs(product);
        }
        EXPECT_NEAR(out[static_cast<size_t>(t * n_rows + r)], sum, 1e-6 * size + 1e-30)
            << "row " << r << ", token " << t << ", k " << k;
      }
    }
  }
}

// Sums and activations beyond the largest 16-bit float are ordinary numbers.
TEST_P(MatMul, ActivationsOfAHundredThousandStayFinite) {
  const int32_t k = Columns(300), n_rows = 3, n_tokens = 2;
  const auto w = RandomWeights(dtype(), static_cast<size_t>(k) * n_rows, 5);
  const auto unit = RandomFloats(static_cast<size_t>(k) * n_tokens, 6);
  std::vector<float> large = unit;
  for (float& x : large) x *= 131072.0f;  // a power of two, so that every product scales exactly
  const auto compute = [&](const std::vector<float>& x) {
    std::vector<float> out(static_cast<size_t>(n_rows) * n_tokens);
    const ScratchBuffer scratch(k);
    table().matmul[index()]({.w = w.data(),
                             .w_row_bytes = RowBytes(k),
                             .n_rows = n_rows,
                             .k = k,
                             .x = x.data(),
                             .x_stride = static_cast<size_t>(k),
                             .x_rows = nullptr,
                             .n_tokens = n_tokens,
                             .out = out.data(),
                             .out_stride = n_rows,
                             .scratch = scratch.data()});
    return out;
  };
  const std::vector<float> small = compute(unit), got = compute(large);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], small[i] * 131072.0f) << i;
}

// Guarantee 1: an element alone has the bits that it has among others.
TEST_P(MatMul, AnElementsBitsDoNotDependOnItsNeighbours) {
  constexpr int32_t kMaxRows = 19, kMaxTokens = 103;
  for (const int32_t columns : {1, 15, 33, 128, 250, 1100}) {
    const int32_t k = Columns(columns);
    const size_t row_bytes = RowBytes(k);
    const auto w = Exact(RandomWeights(dtype(), static_cast<size_t>(k) * kMaxRows, 3));
    const auto x = Exact(RandomFloats(static_cast<size_t>(k) * kMaxTokens, 4));
    const ScratchBuffer scratch(k);
    MatMulArgs args{.w = w.get(),
                    .w_row_bytes = row_bytes,
                    .n_rows = 1,
                    .k = k,
                    .x = x.get(),
                    .x_stride = static_cast<size_t>(k),
                    .x_rows = nullptr,
                    .n_tokens = 1,
                    .out = nullptr,
                    .out_stride = 1,
                    .scratch = scratch.data()};
    std::vector<float> alone(static_cast<size_t>(kMaxRows) * kMaxTokens);
    for (int32_t r = 0; r < kMaxRows; ++r) {
      for (int32_t t = 0; t < kMaxTokens; ++t) {
        args.w = w.get() + static_cast<size_t>(r) * row_bytes;
        args.x = x.get() + static_cast<size_t>(t) * static_cast<size_t>(k);
        args.out = &alone[static_cast<size_t>(t * kMaxRows + r)];
        table().matmul[index()](args);
      }
    }
    args.w = w.get();
    args.x = x.get();
    for (const int32_t n_tokens : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 48, 49, 50, 51, 97, 103}) {
      // A gather in another order, with one row twice.
      std::vector<int32_t> order(static_cast<size_t>(n_tokens));
      for (int32_t t = 0; t < n_tokens; ++t) {
        order[static_cast<size_t>(t)] = (t * 37 + 5) % kMaxTokens;
      }
      order[0] = order[static_cast<size_t>(n_tokens - 1)];
      for (const bool gather : {false, true}) {
        for (int32_t n_rows = n_tokens > 7 ? 15 : 1; n_rows <= kMaxRows; ++n_rows) {
          const size_t stride = static_cast<size_t>(n_rows) + 3;
          std::vector<float> out(stride * static_cast<size_t>(n_tokens), -7.0f);
          args.n_rows = n_rows;
          args.n_tokens = n_tokens;
          args.x_rows = gather ? order.data() : nullptr;
          args.out = out.data();
          args.out_stride = stride;
          table().matmul[index()](args);
          for (int32_t t = 0; t < n_tokens; ++t) {
            const int32_t row_of_x = gather ? order[static_cast<size_t>(t)] : t;
            for (int32_t r = 0; r < n_rows; ++r) {
              const float got = out[static_cast<size_t>(t) * stride + static_cast<size_t>(r)];
              const float want = alone[static_cast<size_t>(row_of_x * kMaxRows + r)];
              ASSERT_TRUE(SameBits(got, want))
                  << "k " << k << ", " << n_rows << " rows, " << n_tokens << " tokens: row " << r
                  << ", token " << t << ": " << got << " for " << want;
            }
            for (size_t r = static_cast<size_t>(n_rows); r < stride; ++r) {
              ASSERT_EQ(out[static_cast<size_t>(t) * stride + r], -7.0f) << "written beyond";
            }
          }
        }
      }
    }
  }
}

TEST_P(MatMul, NeedsNoAlignmentOfWeightsAndActivations) {
  const int32_t k = Columns(300), n_rows = 9, n_tokens = 4;
  const size_t row_bytes = RowBytes(k);
  const auto w = RandomWeights(dtype(), static_cast<size_t>(k) * n_rows, 5);
  const auto x = RandomFloats(static_cast<size_t>(k) * n_tokens, 6);
  const ScratchBuffer scratch(k);
  std::vector<float> want;
  for (const size_t shift : {0, 1, 3}) {
    std::vector<uint8_t> shifted(w.size() + shift);
    std::copy(w.begin(), w.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
    std::vector<float> shifted_x(x.size() + shift);
    std::copy(x.begin(), x.end(), shifted_x.begin() + static_cast<std::ptrdiff_t>(shift));
    std::vector<float> out(static_cast<size_t>(n_rows) * n_tokens);
    table().matmul[index()]({.w = shifted.data() + shift,
                             .w_row_bytes = row_bytes,
                             .n_rows = n_rows,
                             .k = k,
                             .x = shifted_x.data() + shift,
                             .x_stride = static_cast<size_t>(k),
                             .x_rows = nullptr,
                             .n_tokens = n_tokens,
                             .out = out.data(),
                             .out_stride = n_rows,
                             .scratch = scratch.data()});
    if (want.empty()) want = out;
    EXPECT_EQ(out, want);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTableAndType, MatMul,
                         ::testing::ValuesIn(testing::TablesAndTypes([](DType) { return true; })),
                         testing::TableAndTypeName);

}  // namespace
}  // namespace colibri
