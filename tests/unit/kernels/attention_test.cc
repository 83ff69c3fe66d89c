#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "support/kernel_data.h"
#include "support/kernel_tables.h"
#include "tensor/half.h"

namespace colibri {
namespace {

using testing::RandomFloats;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr KvType kTypes[] = {KvType::kF32, KvType::kBF16, KvType::kF16, KvType::kQ8_0};

size_t IndexOf(KvType type) {
  return static_cast<size_t>(type);
}

// What a stored element reads as.
float ReadBack(KvType type, const uint8_t* panel, int32_t dim, size_t element, int32_t column,
               int32_t position) {
  const auto at = [&](size_t offset) {
    uint16_t bits;
    std::memcpy(&bits, panel + offset, sizeof(bits));
    return bits;
  };
  switch (type) {
    case KvType::kF32: {
      float value;
      std::memcpy(&value, panel + element * 4, sizeof(value));
      return value;
    }
    case KvType::kBF16:
      return BFloat16ToFloat(at(element * 2));
    case KvType::kF16:
      return HalfToFloat(at(element * 2));
    case KvType::kQ8_0: {
      const auto scale =
          static_cast<size_t>(column / kPanelDimStep * kPanelPositions + position) * 2;
      const auto quant =
          static_cast<int8_t>(panel[static_cast<size_t>(PanelDim(dim)) * 2 + element]);
      return HalfToFloat(at(scale)) * static_cast<float>(quant);
    }
  }
  return 0;
}

// A chunk of one head's keys and values, each panel in memory of exactly its size.
class Chunk {
 public:
  Chunk(const KernelTable& table, KvType type, int32_t head_dim, int32_t v_head_dim)
      : table_(table), type_(type), head_dim_(head_dim), v_head_dim_(v_head_dim) {
    for (int i = 0; i < kChunkPanels; ++i) {
      memory_.push_back(std::make_unique<uint8_t[]>(PanelBytes(type, head_dim)));
      keys_.push_back(memory_.back().get());
      memory_.push_back(std::make_unique<uint8_t[]>(PanelBytes(type, v_head_dim)));
      values_.push_back(memory_.back().get());
    }
  }

  void Store(int32_t position, const std::vector<float>& key, const std::vector<float>& value) {
    const auto panel = static_cast<size_t>(position / kPanelPositions);
    table_.store_keys[IndexOf(type_)](key.data(), head_dim_, position % kPanelPositions,
                                      keys_[panel]);
    table_.store_values[IndexOf(type_)](value.data(), v_head_dim_, position % kPanelPositions,
                                        values_[panel]);
  }
  void Fill(uint32_t seed, float scale = 1.0f) {
    for (int32_t p = 0; p < kAttentionChunk; ++p) {
      const auto n = static_cast<uint32_t>(p);
      Store(p, RandomFloats(static_cast<size_t>(head_dim_), seed + 2 * n, scale),
            RandomFloats(static_cast<size_t>(v_head_dim_), seed + 2 * n + 1, scale));
    }
  }
  float Key(int32_t position, int32_t column) const {
    const int32_t p = position % kPanelPositions;
    return ReadBack(type_, keys_[static_cast<size_t>(position / kPanelPositions)], head_dim_,
                    static_cast<size_t>(column * kPanelPositions + p), column, p);
  }
  float Value(int32_t position, int32_t column) const {
    const int32_t p = position % kPanelPositions;
    return ReadBack(type_, values_[static_cast<size_t>(position / kPanelPositions)], v_head_dim_,
                    static_cast<size_t>(p * PanelDim(v_head_dim_) + column), column, p);
  }
  const uint8_t* const* keys() const { return keys_.data(); }
  const uint8_t* const* values() const { return values_.data(); }

 private:
  const KernelTable& table_;
  KvType type_;
  int32_t head_dim_, v_head_dim_;
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
  std::vector<uint8_t*> keys_, values_;
};

// What one call gave, a row for each query.
struct Answer {
  std::vector<float> max, sum, out;
};

// Queries [n, head_dim] and what each of them sees.
struct Queries {
  std::vector<float> rows;
  std::vector<int32_t> begin, end;
  size_t size() const { return begin.size(); }
};

Answer Attend(const KernelTable& table, KvType type, const Chunk& chunk, int32_t head_dim,
              int32_t v_head_dim, bool values_in_keys, const Queries& queries) {
  const size_t n = queries.size(), stride = n + 3, dim = static_cast<size_t>(head_dim);
  std::vector<float> by_column(dim * stride, kNan);
  for (size_t i = 0; i < n; ++i) {
    for (size_t c = 0; c < dim; ++c) by_column[c * stride + i] = queries.rows[i * dim + c];
  }
  Answer answer;
  answer.max.resize(n);
  answer.sum.resize(n);
  answer.out.resize(n * static_cast<size_t>(PanelDim(v_head_dim)), kNan);
  const auto count = static_cast<int32_t>(n);
  // What a kernel does not write itself, it must not read.
  std::vector<float> scratch(AttendScratchFloats(count, v_head_dim, values_in_keys) + 16, kNan);
  const auto misaligned = reinterpret_cast<uintptr_t>(scratch.data()) % 64 / sizeof(float);
  AttendArgs args{};
  args.keys = chunk.keys();
  args.values = values_in_keys ? nullptr : chunk.values();
  args.head_dim = head_dim;
  args.v_head_dim = v_head_dim;
  args.q = by_column.data();
  args.q_stride = static_cast<int32_t>(stride);
  args.n_queries = count;
  args.begin = queries.begin.data();
  args.end = queries.end.data();
  args.max = answer.max.data();
  args.sum = answer.sum.data();
  args.out = answer.out.data();
  args.scratch = scratch.data() + (misaligned == 0 ? 0 : 16 - misaligned);
  table.attend[IndexOf(type)](args);
  return answer;
}

// The query's share of an answer: what must not depend on its company.
void ExpectSameQuery(const Answer& a, size_t i, const Answer& b, size_t j, int32_t v_head_dim,
                     const std::string& what) {
  const auto dim = static_cast<size_t>(PanelDim(v_head_dim));
  EXPECT_EQ(std::memcmp(&a.max[i], &b.max[j], sizeof(float)), 0) << what;
  EXPECT_EQ(std::memcmp(&a.sum[i], &b.sum[j], sizeof(float)), 0) << what;
  EXPECT_EQ(std::memcmp(&a.out[i * dim], &b.out[j * dim], dim * sizeof(float)), 0) << what;
}

Queries RandomQueries(size_t n, int32_t head_dim, uint32_t seed) {
  Queries queries;
  queries.rows = RandomFloats(n * static_cast<size_t>(head_dim), seed,
                              1.0f / std::sqrt(static_cast<float>(head_dim)));
  const auto random = RandomFloats(2 * n, seed + 1);
  for (size_t i = 0; i < n; ++i) {
    const auto a = static_cast<int32_t>(std::abs(random[2 * i]) * 100) % kAttentionChunk;
    const auto length = static_cast<int32_t>(std::abs(random[2 * i + 1]) * 150);
    queries.begin.push_back(a);
    queries.end.push_back(std::min(kAttentionChunk, a + length));  // some see nothing
  }
  return queries;
}

Queries Single(const Queries& all, size_t i, int32_t head_dim) {
  const auto dim = static_cast<size_t>(head_dim);
  return {{all.rows.begin() + static_cast<int64_t>(i * dim),
           all.rows.begin() + static_cast<int64_t>((i + 1) * dim)},
          {all.begin[i]},
          {all.end[i]}};
}

class Attention : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& table() const { return *GetParam(); }
};

struct Shape {
  int32_t head_dim, v_head_dim;
  bool values_in_keys;
};
constexpr Shape kShapes[] = {{64, 64, false},  {128, 128, false}, {8, 24, false}, {80, 96, false},
                             {33, 1, false},   {192, 128, false}, {48, 32, true}, {72, 40, true},
                             {576, 512, true}, {1, 1, true}};

TEST_P(Attention, AgreesWithDouble) {
  for (const KvType type : kTypes) {
    for (const Shape& shape : kShapes) {
      Chunk chunk(table(), type, shape.head_dim, shape.v_head_dim);
      chunk.Fill(7);
      for (const size_t n : {1u, 2u, 3u, 5u, 8u, 12u, 13u, 40u}) {
        const Queries queries = RandomQueries(n, shape.head_dim, static_cast<uint32_t>(n));
        const Answer got = Attend(table(), type, chunk, shape.head_dim, shape.v_head_dim,
                                  shape.values_in_keys, queries);
        for (size_t i = 0; i < n; ++i) {
          const auto dim = static_cast<size_t>(PanelDim(shape.v_head_dim));
          std::vector<double> scores, out(dim);
          double max = -std::numeric_limits<double>::infinity(), sum = 0;
          for (int32_t p = queries.begin[i]; p < queries.end[i]; ++p) {
            double score = 0;
            for (int32_t c = 0; c < shape.head_dim; ++c) {
              score += static_cast<double>(queries.rows[i * static_cast<size_t>(shape.head_dim) +
                                                        static_cast<size_t>(c)]) *
                       static_cast<double>(chunk.Key(p, c));
            }
            scores.push_back(score);
            max = std::max(max, score);
          }
          for (size_t s = 0; s < scores.size(); ++s) {
            const double weight = std::exp(scores[s] - max);
            sum += weight;
            const int32_t p = queries.begin[i] + static_cast<int32_t>(s);
            for (int32_t c = 0; c < shape.v_head_dim; ++c) {
              const float value = shape.values_in_keys ? chunk.Key(p, c) : chunk.Value(p, c);
              out[static_cast<size_t>(c)] += weight * static_cast<double>(value);
            }
          }
          if (scores.empty()) {
            EXPECT_EQ(got.max[i], -kInf);
            EXPECT_EQ(got.sum[i], 0.0f);
          } else {
            EXPECT_NEAR(got.max[i], max, 2e-6 + 1e-8 * shape.head_dim);
            EXPECT_NEAR(got.sum[i], sum, 1e-5 * sum);
          }
          for (size_t c = 0; c < dim; ++c) {
            ASSERT_NEAR(got.out[i * dim + c], out[c], 1e-5 * (sum + 1))
                << "type " << IndexOf(type) << ", head_dim " << shape.head_dim << ", query " << i
                << " of " << n << ", column " << c;
          }
        }
      }
    }
  }
}

TEST_P(Attention, AQueryDoesNotDependOnItsCompany) {
  for (const KvType type : kTypes) {
    for (const Shape& shape : kShapes) {
      Chunk chunk(table(), type, shape.head_dim, shape.v_head_dim);
      chunk.Fill(3);
      const Queries all = RandomQueries(37, shape.head_dim, 11);
      const Answer together =
          Attend(table(), type, chunk, shape.head_dim, shape.v_head_dim, shape.values_in_keys, all);
      for (size_t i = 0; i < all.size(); ++i) {
        const Answer alone = Attend(table(), type, chunk, shape.head_dim, shape.v_head_dim,
                                    shape.values_in_keys, Single(all, i, shape.head_dim));
        ExpectSameQuery(together, i, alone, 0, shape.v_head_dim,
                        "type " + std::to_string(IndexOf(type)) + ", query " + std::to_string(i));
      }
    }
  }
}

TEST_P(Attention, WhatAQueryDoesNotSeeChangesNoBit) {
  for (const KvType type : kTypes) {
    Chunk chunk(table(), type, 64, 64);
    chunk.Fill(5);
    Queries queries = RandomQueries(20, 64, 1);
    for (size_t i = 0; i < queries.size(); ++i) {
      queries.begin[i] = 40 + static_cast<int32_t>(i);
      queries.end[i] = 150 + static_cast<int32_t>(3 * i);
    }
    const Answer before = Attend(table(), type, chunk, 64, 64, false, queries);
    // Hidden from all: anything may stand there. Hidden from the first alone: any finite value.
    for (int32_t p = 0; p < kAttentionChunk; ++p) {
      if (p < 40 || p >= 150 + 3 * 19) {
        chunk.Store(p, std::vector<float>(64, kNan), std::vector<float>(64, kInf));
      } else if (p >= 150) {
        chunk.Store(p, std::vector<float>(64, kNan), std::vector<float>(64, -3e4f));
      }
    }
    const Answer after = Attend(table(), type, chunk, 64, 64, false, queries);
    ExpectSameQuery(before, 0, after, 0, 64, "type " + std::to_string(IndexOf(type)));
    EXPECT_TRUE(std::isnan(after.out[19 * 64]));
  }
}

TEST_P(Attention, PanelsThatNoQuerySeesAreNotTouched) {
  for (const bool values_in_keys : {false, true}) {
    Chunk chunk(table(), KvType::kF32, 32, 32);
    chunk.Fill(9);
    std::vector<const uint8_t*> keys(kChunkPanels), values(kChunkPanels);
    keys[3] = chunk.keys()[3];
    values[3] = chunk.values()[3];
    const std::vector<float> q = RandomFloats(32, 1);
    const int32_t begin = 3 * kPanelPositions + 5, end = 3 * kPanelPositions + 20;
    float max, sum;
    std::vector<float> out(32), scratch(AttendScratchFloats(1, 32, values_in_keys));
    const AttendArgs args = {keys.data(),
                             values_in_keys ? nullptr : values.data(),
                             32,
                             32,
                             q.data(),
                             1,
                             1,
                             &begin,
                             &end,
                             &max,
                             &sum,
                             out.data(),
                             scratch.data()};
    table().attend[0](args);
    EXPECT_GE(sum, 1.0f);
  }
}

TEST_P(Attention, ExtremeScoresStayExact) {
  Chunk chunk(table(), KvType::kF32, 32, 32);
  for (int32_t p = 0; p < kAttentionChunk; ++p) {
    std::vector<float> key(32, 0.0f);
    key[0] = p == 100 ? 1e30f : -1e30f;
    chunk.Store(p, key, std::vector<float>(32, static_cast<float>(p)));
  }
  Queries queries;
  queries.rows.assign(32, 1e8f);
  queries.begin = {0};
  queries.end = {kAttentionChunk};
  const Answer answer = Attend(table(), KvType::kF32, chunk, 32, 32, false, queries);
  EXPECT_EQ(answer.max[0], 1e30f * 1e8f);
  EXPECT_EQ(answer.sum[0], 1.0f);
  EXPECT_EQ(answer.out[0], 100.0f);
}

TEST_P(Attention, NoNonFiniteKeyOrValueIsHidden) {
  for (const KvType type : kTypes) {
    for (const float bad : {kNan, kInf, -kInf}) {
      for (const bool in_key : {false, true}) {
        if (in_key && bad == -kInf) continue;  // a score of -infinity is a weight of zero
        Chunk chunk(table(), type, 64, 64);
        chunk.Fill(2);
        std::vector<float> key(64, 1.0f), value(64, 1.0f);
        (in_key ? key : value)[40] = bad;
        chunk.Store(77, key, value);
        Queries queries;
        queries.rows.assign(64, 1.0f);
        queries.begin = {0};
        queries.end = {kAttentionChunk};
        const Answer answer = Attend(table(), type, chunk, 64, 64, false, queries);
        EXPECT_FALSE(std::isfinite(answer.out[40] / answer.sum[0]))
            << "type " << IndexOf(type) << ", " << bad;
      }
    }
  }
}

TEST_P(Attention, StoresTheNearestValue) {
  std::vector<float> row = RandomFloats(96, 4);
  for (const float special : {0.0f, -0.0f, 1e-8f, 6e-8f, -3e-8f, 65504.0f, 1.0f + 0x1p-11f}) {
    row.push_back(special);
  }
  const auto dim = static_cast<int32_t>(row.size());
  for (const KvType type : kTypes) {
    Chunk chunk(table(), type, dim, dim);
    chunk.Store(45, row, row);
    for (int32_t c = 0; c < dim; ++c) {
      const float want = row[static_cast<size_t>(c)];
      float tolerance = 0;
      if (type == KvType::kBF16) tolerance = std::abs(want) * 0x1p-8f;
      if (type == KvType::kF16) tolerance = std::max(std::abs(want) * 0x1p-11f, 0x1p-25f);
      if (type == KvType::kQ8_0) {
        const int32_t first = c / kPanelDimStep * kPanelDimStep;
        float largest = 0;
        for (int32_t i = first; i < std::min(dim, first + kPanelDimStep); ++i) {
          largest = std::max(largest, std::abs(row[static_cast<size_t>(i)]));
        }
        // Half a step, and what the scale's own rounding takes from the largest.
        tolerance = largest * (0.5f / 127.0f + 0x1p-11f) * 1.001f;
      }
      EXPECT_LE(std::abs(chunk.Key(45, c) - want), tolerance) << IndexOf(type) << " " << want;
      EXPECT_EQ(chunk.Key(45, c), chunk.Value(45, c)) << IndexOf(type) << " " << want;
    }
    chunk.Store(45, std::vector<float>(row.size(), 1e6f), std::vector<float>(row.size(), 1e6f));
    if (type == KvType::kF16) {
      EXPECT_EQ(chunk.Key(45, 0), kInf);
    } else {
      EXPECT_NEAR(chunk.Key(45, 0), 1e6f, 4e3f);
    }
  }
}

TEST_P(Attention, StoresTheSameBytesAsTheGenericTable) {
  auto row = RandomFloats(64, 8);
  row[3] = kNan;
  row[5] = 0x1p-24f * 2.5f;
  row[6] = 65519.9f;
  row[7] = 65520.0f;
  for (const KvType type : kTypes) {
    std::vector<uint8_t> a(PanelBytes(type, 64)), b(PanelBytes(type, 64));
    for (const int32_t dim : {64, 50}) {
      table().store_keys[IndexOf(type)](row.data(), dim, 9, a.data());
      AllKernels()[0].table->store_keys[IndexOf(type)](row.data(), dim, 9, b.data());
      EXPECT_EQ(a, b) << IndexOf(type);
      table().store_values[IndexOf(type)](row.data(), dim, 9, a.data());
      AllKernels()[0].table->store_values[IndexOf(type)](row.data(), dim, 9, b.data());
      EXPECT_EQ(a, b) << IndexOf(type);
    }
  }
}

TEST_P(Attention, BlendWeighsBoth) {
  for (const size_t n : {1u, 8u, 15u, 64u, 67u}) {
    const auto x = RandomFloats(n, 1), y = RandomFloats(n, 2);
    auto out = y;
    table().blend(0.25f, x.data(), 3.0f, n, out.data());
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], 0.25f * x[i] + 3.0f * y[i], 2e-6f);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTable, Attention, ::testing::ValuesIn(testing::RunnableTables()),
                         testing::TableName);

}  // namespace
}  // namespace colibri
