// What only aarch64 has: Linux's list of features, the identification register and its barrier.
#include <sys/auxv.h>

#include <cstdint>
#include <string>

#include "base/strings.h"
#include "platform/cpu_features.h"
#include "platform/spin.h"

namespace colibri {
namespace {

// Bits of the auxiliary vector, as Linux defines them for aarch64; older headers lack the last.
constexpr uint64_t kHwcapAsimd = 1u << 1;
constexpr uint64_t kHwcapCpuId = 1u << 11;
constexpr uint64_t kHwcapAsimdDp = 1u << 20;
constexpr uint64_t kHwcap2I8mm = 1u << 13;

struct Part {
  uint32_t implementer, part;
  const char* name;
};
constexpr Part kParts[] = {
    {0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd04, "Arm Cortex-A35"},
    {0x41, 0xd05, "Arm Cortex-A55"},  {0x41, 0xd07, "Arm Cortex-A57"},
    {0x41, 0xd08, "Arm Cortex-A72"},  {0x41, 0xd09, "Arm Cortex-A73"},
    {0x41, 0xd0b, "Arm Cortex-A76"},  {0x41, 0xd0c, "Arm Neoverse-N1"},
    {0x41, 0xd40, "Arm Neoverse-V1"}, {0x41, 0xd49, "Arm Neoverse-N2"},
    {0x41, 0xd4f, "Arm Neoverse-V2"}, {0x41, 0xd8e, "Arm Neoverse-N3"},
    {0x41, 0xd84, "Arm Neoverse-V3"}, {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1A"},
};

std::string Hex(uint32_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + out;
}

}  // namespace

CpuFeatures DetectCpuFeatures() {
  CpuFeatures out;
  const uint64_t hwcap = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);
  out.neon = (hwcap & kHwcapAsimd) != 0;
  out.dotprod = out.neon && (hwcap & kHwcapAsimdDp) != 0;
  out.i8mm = out.dotprod && (hwcap2 & kHwcap2I8mm) != 0;
  return out;
}

std::string CpuName() {
  // Linux lets programs read the register where it says so.
  if ((getauxval(AT_HWCAP) & kHwcapCpuId) == 0) return "unknown";
  uint64_t id = 0;
  __asm__("mrs %0, midr_el1" : "=r"(id));
  const auto implementer = static_cast<uint32_t>(id >> 24 & 0xff);
  const auto part = static_cast<uint32_t>(id >> 4 & 0xfff);
  for (const Part& known : kParts) {
    if (known.implementer == implementer && known.part == part) return known.name;
  }
  return StrCat("aarch64, implementer ", Hex(implementer), ", part ", Hex(part));
}

void SpinPause() {
  // YIELD is nothing on most of these CPUs; waiting for the pipeline leaves the others alone.
  __asm__ volatile("isb" ::: "memory");
}

}  // namespace colibri
