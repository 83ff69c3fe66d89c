#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <string>

namespace colibri {
namespace {

TEST(DType, EveryNameParsesBackInAnyCase) {
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    std::string upper(DTypeName(dtype));
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
    EXPECT_EQ(ParseDType(upper), dtype) << upper;
  }
  EXPECT_EQ(ParseDType("q4_2"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
}

TEST(DType, BytesCountWholeBlocksOnly) {
  EXPECT_EQ(DTypeBytes(DType::kF32, 3), 12u);
  EXPECT_EQ(DTypeBytes(DType::kQ8_0, 64), 68u);
  EXPECT_EQ(DTypeBytes(DType::kQ4_K, 512), 288u);
  EXPECT_EQ(DTypeBytes(DType::kQ8_0, 33), std::nullopt);
  EXPECT_EQ(DTypeBytes(DType::kNVFP4, 32), std::nullopt);
  EXPECT_EQ(DTypeBytes(DType::kQ8_0, 0), 0u);
}

TEST(DType, BytesRefuseAnOverflow) {
  EXPECT_EQ(DTypeBytes(DType::kF32, uint64_t{1} << 62), std::nullopt);
  EXPECT_EQ(DTypeBytes(DType::kF16, uint64_t{1} << 62), uint64_t{1} << 63);
}

TEST(DType, IntegersAreNoWeights) {
  EXPECT_FALSE(GetDTypeInfo(DType::kI64).is_weight);
  EXPECT_FALSE(GetDTypeInfo(DType::kU8).is_weight);
  EXPECT_TRUE(GetDTypeInfo(DType::kIQ1_M).is_weight);
  EXPECT_TRUE(GetDTypeInfo(DType::kF8_E4M3).is_weight);
}

}  // namespace
}  // namespace colibri
