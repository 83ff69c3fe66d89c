#include "kernels/select.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "platform/cpu_features.h"
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
      const bool codes = format != nullptr && format->numbers == PanelNumbers::kCodes;
      const bool bf16 = format != nullptr && format->numbers == PanelNumbers::kBFloat16;
      EXPECT_EQ(table.panel_matmul[i] != nullptr, codes) << table.name << " " << i;
      EXPECT_EQ(table.bf16_matmul[i] != nullptr, codes || bf16) << table.name << " " << i;
      EXPECT_EQ(table.float_matmul[i] != nullptr, format != nullptr && !codes && !bf16)
          << table.name << " " << i;
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

#if defined(__x86_64__)
// A machine with all that AVX-512 sets need.
CpuFeatures Avx512Machine() {
  CpuFeatures out;
  out.avx2 = out.avx_vnni = out.avx512 = out.avx512_vnni = out.avx512_bf16 = true;
  return out;
}

TEST(SelectKernels, MadeUpMachinesGetTheFastestSetThatTheyCanRun) {
  CpuFeatures machine;
  EXPECT_STREQ(SelectKernels("", machine).value()->name, "generic");
  machine.avx2 = true;
  EXPECT_STREQ(SelectKernels("", machine).value()->name, "avx2");
  machine.avx512 = true;
  EXPECT_STREQ(SelectKernels("", machine).value()->name, "avx512");
  EXPECT_STREQ(SelectKernels("", Avx512Machine()).value()->name, "avx512bf16");
}

TEST(SelectKernels, AmxNeedsTheCpuAndThePermission) {
  CpuFeatures machine = Avx512Machine();
  const auto refusal = [&machine] {
    EXPECT_STREQ(SelectKernels("", machine).value()->name, "avx512bf16");
    const auto forced = SelectKernels("amx", machine);
    EXPECT_EQ(forced.status().code(), StatusCode::kUnsupported);
    return std::string(forced.status().message());
  };
  EXPECT_NE(refusal().find("lacks AMX (TILE, INT8 and BF16)"), std::string::npos);
  machine.amx = true;
  EXPECT_NE(refusal().find("lacks the permission to use AMX's tiles"), std::string::npos);
  machine.amx_permitted = true;
  EXPECT_STREQ(SelectKernels("", machine).value()->name, "amx");
  EXPECT_STREQ(SelectKernels("amx", machine).value()->name, "amx");
  EXPECT_STREQ(SelectKernels("avx512vnni", machine).value()->name, "avx512vnni");
}

TEST(SelectKernels, AmxWithoutTheSetsThatItInheritsIsNotTaken) {
  CpuFeatures machine = Avx512Machine();
  machine.amx = machine.amx_permitted = true;
  machine.avx512_bf16 = false;
  EXPECT_STREQ(SelectKernels("", machine).value()->name, "avx512vnni");
  EXPECT_NE(SelectKernels("amx", machine).status().message().find("AVX-512 BF16"),
            std::string::npos);
}

TEST(SelectKernels, AmxReplacesTheProductsOfPanelsAlone) {
  CpuFeatures machine = Avx512Machine();
  machine.amx = machine.amx_permitted = true;
  const KernelTable& amx = *SelectKernels("", machine).value();
  const KernelTable& bf16 = *SelectKernels("avx512bf16", machine).value();
  for (size_t i = 0; i < kNumDTypes; ++i) {
    if (amx.panel_matmul[i] != nullptr) {
      EXPECT_NE(amx.panel_matmul[i], bf16.panel_matmul[i]) << i;
    }
    EXPECT_EQ(amx.bf16_matmul[i] != bf16.bf16_matmul[i], static_cast<DType>(i) == DType::kBF16)
        << i;
    EXPECT_EQ(amx.matmul[i], bf16.matmul[i]) << i;
  }
  EXPECT_EQ(amx.quantize_row, bf16.quantize_row);
  EXPECT_EQ(amx.exp_sum, bf16.exp_sum);
}
#endif

}  // namespace
}  // namespace colibri
