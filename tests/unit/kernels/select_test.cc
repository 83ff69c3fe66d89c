#include "kernels/select.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/kernel_data.h"

namespace colibri {
namespace {

// The environment's COLIBRI_FORCE_ISA for one test.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* value) {
    if (const char* const old = std::getenv("COLIBRI_FORCE_ISA")) {
      old_ = old;
      had_ = true;
    }
    if (value == nullptr) {
      unsetenv("COLIBRI_FORCE_ISA");
    } else {
      setenv("COLIBRI_FORCE_ISA", value, 1);
    }
  }
  ~ForcedIsa() {
    if (had_) {
      setenv("COLIBRI_FORCE_ISA", old_.c_str(), 1);
    } else {
      unsetenv("COLIBRI_FORCE_ISA");
    }
  }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;

 private:
  std::string old_;
  bool had_ = false;
};

TEST(SelectKernels, EveryTableIsComplete) {
  ASSERT_FALSE(AllKernels().empty());
  for (const KernelTableChoice& choice : AllKernels()) {
    const KernelTable& table = *choice.table;
    EXPECT_NE(table.name, nullptr);
    for (size_t i = 0; i < kNumDTypes; ++i) {
      EXPECT_NE(table.decode[i], nullptr) << table.name << " " << i;
      EXPECT_NE(table.matmul[i], nullptr) << table.name << " " << i;
      const PanelFormat* const format = FindPanelFormat(static_cast<DType>(i));
      const bool is_bf16 = format != nullptr && format->is_bf16;
      EXPECT_EQ(table.panel_matmul[i] != nullptr, format != nullptr && !is_bf16)
          << table.name << " " << i;
      EXPECT_EQ(table.bf16_matmul[i] != nullptr, format != nullptr) << table.name << " " << i;
    }
    EXPECT_NE(table.rms_norm, nullptr);
    EXPECT_NE(table.layer_norm, nullptr);
    EXPECT_NE(table.gated_activation, nullptr);
    EXPECT_NE(table.exp_sum, nullptr);
    EXPECT_NE(table.axpy, nullptr);
    EXPECT_NE(table.quantize_row, nullptr);
    EXPECT_NE(table.round_row, nullptr);
    EXPECT_NE(table.blend, nullptr);
    for (size_t i = 0; i < kNumKvTypes; ++i) {
      EXPECT_NE(table.attend[i], nullptr) << table.name << " " << i;
      EXPECT_NE(table.store_keys[i], nullptr) << table.name << " " << i;
      EXPECT_NE(table.store_values[i], nullptr) << table.name << " " << i;
    }
  }
}

TEST(SelectKernels, TheGenericTableRunsEverywhere) {
  EXPECT_STREQ(AllKernels().front().table->name, "generic");
  EXPECT_TRUE(AllKernels().front().runnable);
}

TEST(SelectKernels, WithoutAForcedOneTheFastestRunnableIsTaken) {
  const KernelTable* fastest = nullptr;
  for (const KernelTableChoice& choice : AllKernels()) {
    if (choice.runnable) fastest = choice.table;
  }
  const auto chosen = SelectKernels("");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, fastest);
}

TEST(SelectKernels, AForcedTableIsTheOneThatRuns) {
  std::vector<float> sums;
  for (const KernelTableChoice& choice : AllKernels()) {
    const ForcedIsa forced(choice.table->name);
    const auto chosen = SelectKernelsFromEnvironment();
    if (!choice.runnable) {
      ASSERT_FALSE(chosen.ok());
      EXPECT_EQ(chosen.status().code(), StatusCode::kUnsupported);
      EXPECT_NE(chosen.status().message().find("lacks"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(chosen.ok()) << chosen.status().ToString();
    EXPECT_EQ(*chosen, choice.table);
    EXPECT_STREQ((*chosen)->name, choice.table->name);
    // What ran shows in the arithmetic: (1 + 2^-12)^2 - 1 keeps its last bit only when fused.
    const float x = 1.0f + 0x1p-12f;
    float y = -1.0f;
    (*chosen)->axpy(x, &x, 1, &y);
    sums.push_back(y);
  }
  EXPECT_EQ(sums.front(), 0x1p-11f);
  for (size_t i = 1; i < sums.size(); ++i) EXPECT_EQ(sums[i], 0x1p-11f + 0x1p-24f);
}

TEST(SelectKernels, EachNameRunsCodeOfItsOwn) {
  // Sums over other numbers of lanes, or without fusing, round differently for some input.
  std::vector<std::vector<float>> seen;
  std::vector<const KernelTable*> tables;
  for (const KernelTableChoice& choice : AllKernels()) {
    if (!choice.runnable) continue;
    tables.push_back(choice.table);
    std::vector<float>& sums = seen.emplace_back();
    for (uint32_t seed = 0; seed < 20; ++seed) {
      auto x = testing::RandomFloats(1000, seed);
      sums.push_back(choice.table->exp_sum(x.data(), x.size(), 0.0f));
    }
  }
  for (size_t i = 1; i < seen.size(); ++i) {
    // Some tables have products alone of their own: these show no difference.
    const size_t q4_0 = static_cast<size_t>(DType::kQ4_0), bf16 = static_cast<size_t>(DType::kBF16);
    EXPECT_TRUE(tables[i]->panel_matmul[q4_0] != tables[i - 1]->panel_matmul[q4_0] ||
                tables[i]->bf16_matmul[bf16] != tables[i - 1]->bf16_matmul[bf16]);
    if (tables[i]->exp_sum != tables[i - 1]->exp_sum) {
      EXPECT_NE(seen[i], seen[i - 1]);
    }
    for (size_t j = 0; j < 20; ++j) EXPECT_NEAR(seen[i][j], seen[0][j], 1e-6f * seen[0][j]);
  }
}

TEST(SelectKernels, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const ForcedIsa forced("sse9");
  const auto chosen = SelectKernelsFromEnvironment();
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(chosen.status().message().find("COLIBRI_FORCE_ISA: sse9"), std::string::npos);
  EXPECT_EQ(SelectKernels("sse9").status().message().find("COLIBRI_FORCE_ISA"), std::string::npos);
  EXPECT_NE(chosen.status().message().find("generic"), std::string::npos);
}

TEST(SelectKernels, AnEmptyOrMissingVariableForcesNothing) {
  const KernelTable* const fastest = SelectKernels("").value();
  for (const char* const value : {static_cast<const char*>(nullptr), ""}) {
    const ForcedIsa forced(value);
    EXPECT_EQ(SelectKernelsFromEnvironment().value(), fastest);
  }
}

}  // namespace
}  // namespace colibri
