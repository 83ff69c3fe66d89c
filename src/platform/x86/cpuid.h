// platform/x86/cpuid.h - what CPUID and XGETBV answer, and what follows from it.
#pragma once

#include <cstdint>

#include "platform/cpu_features.h"

namespace colibri {

// The registers that tell of instruction sets; zero where the CPU does not know the leaf.
struct CpuidAnswers {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0;  // leaf 7, subleaf 0
  uint32_t leaf7_1_eax = 0;                              // leaf 7, subleaf 1
  uint32_t tiles_eax = 0, tiles_ebx = 0, tiles_ecx = 0;  // leaf 0x1d, subleaf 1: AMX's palette 1
  // Which register files the operating system saves on a switch of threads; zero without XGETBV.
  uint32_t xcr0 = 0;
};

// All but amx_permitted, which the kernel alone can tell.
CpuFeatures FeaturesOf(const CpuidAnswers& answers);

}  // namespace colibri
