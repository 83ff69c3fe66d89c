#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/tables.h"

namespace colibri {

std::span<const InstructionSet> InstructionSets() {
  static constexpr InstructionSet kSets[] = {
      {&isa::kGeneric, [](const CpuFeatures&) { return true; }, "nothing"},
      {&isa::kNeon, [](const CpuFeatures& cpu) { return cpu.neon; }, "Advanced SIMD"},
      {&isa::kNeonDot, [](const CpuFeatures& cpu) { return cpu.dotprod; },
       "the dot products of bytes (dotprod)"},
      {&isa::kI8mm, [](const CpuFeatures& cpu) { return cpu.i8mm; },
       "the mixed products of bytes (i8mm)"},
  };
  return kSets;
}

}  // namespace colibri
