#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/tables.h"

namespace colibri {

std::span<const InstructionSet> InstructionSets() {
  static constexpr InstructionSet kSets[] = {
      {&isa::kGeneric, [](const CpuFeatures&) { return true; }, "nothing"},
      {&isa::kAvx2, [](const CpuFeatures& cpu) { return cpu.avx2; }, "AVX2, FMA or F16C"},
      {&isa::kAvxVnni, [](const CpuFeatures& cpu) { return cpu.avx_vnni; }, "AVX-VNNI"},
      {&isa::kAvx512, [](const CpuFeatures& cpu) { return cpu.avx512; },
       "AVX-512 (F, BW, DQ, VL, CD)"},
      {&isa::kAvx512Vnni, [](const CpuFeatures& cpu) { return cpu.avx512_vnni; }, "AVX-512 VNNI"},
      {&isa::kAvx512Bf16, [](const CpuFeatures& cpu) { return cpu.avx512_vnni && cpu.avx512_bf16; },
       "AVX-512 VNNI or AVX-512 BF16"},
  };
  return kSets;
}

}  // namespace colibri
