// What only x86 has: CPUID, XCR0 and the PAUSE instruction.
#include <cpuid.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "platform/cpu_features.h"
#include "platform/spin.h"

namespace colibri {
namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero where the CPU does not know the leaf.
Registers CpuId(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool Bit(uint32_t word, int bit) {
  return (word >> bit & 1) != 0;
}

// Which register files the operating system saves on a switch of threads.
uint32_t ReadXcr0() {
  uint32_t eax = 0, edx = 0;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return eax;
}

}  // namespace

CpuFeatures DetectCpuFeatures() {
  CpuFeatures out;
  const Registers leaf1 = CpuId(1);
  const bool osxsave = Bit(leaf1.ecx, 27);
  if (!osxsave) return out;
  const uint32_t xcr0 = ReadXcr0();
  constexpr uint32_t kYmmState = 0x6;               // SSE and AVX registers
  constexpr uint32_t kZmmState = 0xe0 | kYmmState;  // and masks, upper halves, registers 16 to 31
  const Registers leaf7 = CpuId(7, 0);
  const Registers leaf7_1 = CpuId(7, 1);
  const bool fma = Bit(leaf1.ecx, 12), avx = Bit(leaf1.ecx, 28), f16c = Bit(leaf1.ecx, 29);
  out.avx2 = (xcr0 & kYmmState) == kYmmState && avx && fma && f16c && Bit(leaf7.ebx, 5);
  const bool f = Bit(leaf7.ebx, 16), dq = Bit(leaf7.ebx, 17), cd = Bit(leaf7.ebx, 28);
  const bool bw = Bit(leaf7.ebx, 30), vl = Bit(leaf7.ebx, 31);
  out.avx512 = out.avx2 && (xcr0 & kZmmState) == kZmmState && f && dq && cd && bw && vl;
  out.avx_vnni = out.avx2 && Bit(leaf7_1.eax, 4);
  out.avx512_vnni = out.avx512 && Bit(leaf7.ecx, 11);
  out.avx512_bf16 = out.avx512 && Bit(leaf7_1.eax, 5);
  return out;
}

std::string CpuName() {
  std::array<char, 49> name{};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = CpuId(0x80000002u + i);
    const uint32_t words[4] = {r.eax, r.ebx, r.ecx, r.edx};
    std::memcpy(name.data() + 16 * i, words, sizeof(words));
  }
  std::string out(name.data());
  out.erase(0, out.find_first_not_of(' '));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out.empty() ? "unknown" : out;
}

void SpinPause() {
  __builtin_ia32_pause();
}

}  // namespace colibri
