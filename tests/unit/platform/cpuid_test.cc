// What follows from made-up answers of CPUID: most machines have only some of the instruction sets.
#if defined(__x86_64__)
#include "platform/x86/cpuid.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

namespace colibri {
namespace {

uint32_t Bits(std::initializer_list<int> bits) {
  uint32_t out = 0;
  for (const int bit : bits) out |= uint32_t{1} << bit;
  return out;
}

// A CPU with everything, and an operating system that saves all of it.
CpuidAnswers Everything() {
  CpuidAnswers out;
  out.leaf1_ecx = Bits({12, 27, 28, 29});         // FMA, OSXSAVE, AVX, F16C
  out.leaf7_ebx = Bits({5, 16, 17, 28, 30, 31});  // AVX2; AVX-512 F, DQ, CD, BW, VL
  out.leaf7_ecx = Bits({11});                     // AVX-512 VNNI
  out.leaf7_edx = Bits({22, 24, 25});             // AMX-BF16, AMX-TILE, AMX-INT8
  out.leaf7_1_eax = Bits({4, 5});                 // AVX-VNNI, AVX-512 BF16
  out.tiles_eax = 1024u << 16 | 8192u;            // bytes of a tile and of all
  out.tiles_ebx = 8u << 16 | 64u;                 // tiles and bytes of a row
  out.tiles_ecx = 16;                             // rows
  out.xcr0 = Bits({0, 1, 2, 5, 6, 7, 17, 18});
  return out;
}

TEST(FeaturesOf, ACpuWithEverythingHasEverySet) {
  const CpuFeatures features = FeaturesOf(Everything());
  EXPECT_TRUE(features.avx2);
  EXPECT_TRUE(features.avx_vnni);
  EXPECT_TRUE(features.avx512);
  EXPECT_TRUE(features.avx512_vnni);
  EXPECT_TRUE(features.avx512_bf16);
  EXPECT_TRUE(features.amx);
  EXPECT_FALSE(features.amx_permitted);  // no answer of the CPU
}

TEST(FeaturesOf, NothingFollowsFromNothing) {
  const CpuFeatures features = FeaturesOf({});
  EXPECT_FALSE(features.avx2 || features.avx_vnni || features.avx512 || features.avx512_vnni ||
               features.avx512_bf16 || features.amx);
}

TEST(FeaturesOf, AmxNeedsEachOfItsThreeParts) {
  for (const int bit : {22, 24, 25}) {
    CpuidAnswers answers = Everything();
    answers.leaf7_edx &= ~Bits({bit});
    EXPECT_FALSE(FeaturesOf(answers).amx) << bit;
    EXPECT_TRUE(FeaturesOf(answers).avx512_bf16) << bit;
  }
}

TEST(FeaturesOf, WhatTheSystemDoesNotSaveIsNotThere) {
  for (const int bit : {17, 18}) {
    CpuidAnswers answers = Everything();
    answers.xcr0 &= ~Bits({bit});
    EXPECT_FALSE(FeaturesOf(answers).amx) << bit;
    EXPECT_TRUE(FeaturesOf(answers).avx512_bf16) << bit;
  }
  for (const int bit : {5, 6, 7}) {
    CpuidAnswers answers = Everything();
    answers.xcr0 &= ~Bits({bit});
    EXPECT_FALSE(FeaturesOf(answers).avx512) << bit;
    EXPECT_TRUE(FeaturesOf(answers).avx2) << bit;
  }
  CpuidAnswers answers = Everything();
  answers.xcr0 = Bits({0, 1});
  EXPECT_FALSE(FeaturesOf(answers).avx2);
}

TEST(FeaturesOf, TilesOfAnotherSizeAreNotUsed) {
  const auto with = [](auto change) {
    CpuidAnswers answers = Everything();
    change(answers);
    return FeaturesOf(answers).amx;
  };
  EXPECT_FALSE(with([](CpuidAnswers& a) { a.tiles_eax = 2048u << 16 | 16384u; }));
  EXPECT_FALSE(with([](CpuidAnswers& a) { a.tiles_ebx = 8u << 16 | 128u; }));
  EXPECT_FALSE(with([](CpuidAnswers& a) { a.tiles_ebx = 4u << 16 | 64u; }));
  EXPECT_FALSE(with([](CpuidAnswers& a) { a.tiles_ecx = 8; }));
}

}  // namespace
}  // namespace colibri
#endif
