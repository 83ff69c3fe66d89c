#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/tables.h"

namespace colibri {
namespace {

bool HasBf16(const CpuFeatures& cpu) {
  return cpu.avx512_vnni && cpu.avx512_bf16;
}
constexpr std::string_view kBf16Needs = "AVX-512 VNNI or AVX-512 BF16";

bool HasAmx(const CpuFeatures& cpu) {
  return HasBf16(cpu) && cpu.amx && cpu.amx_permitted;
}
std::string_view MissingForAmx(const CpuFeatures& cpu) {
  if (!cpu.amx) return "AMX (TILE, INT8 and BF16)";
  if (!HasBf16(cpu)) return kBf16Needs;
  return "the permission to use AMX's tiles, which Linux 5.16 and later give a process that asks "
         "(arch_prctl, ARCH_REQ_XCOMP_PERM)";
}

}  // namespace

std::span<const InstructionSet> InstructionSets() {
  static constexpr InstructionSet kSets[] = {
      {&isa::kGeneric, [](const CpuFeatures&) { return true; }, "nothing"},
      {&isa::kAvx2, [](const CpuFeatures& cpu) { return cpu.avx2; }, "AVX2, FMA or F16C"},
      {&isa::kAvxVnni, [](const CpuFeatures& cpu) { return cpu.avx_vnni; }, "AVX-VNNI"},
      {&isa::kAvx512, [](const CpuFeatures& cpu) { return cpu.avx512; },
       "AVX-512 (F, BW, DQ, VL, CD)"},
      {&isa::kAvx512Vnni, [](const CpuFeatures& cpu) { return cpu.avx512_vnni; }, "AVX-512 VNNI"},
      {&isa::kAvx512Bf16, HasBf16, kBf16Needs},
      {&isa::kAmx, HasAmx, "AMX", MissingForAmx},
  };
  return kSets;
}

}  // namespace colibri
