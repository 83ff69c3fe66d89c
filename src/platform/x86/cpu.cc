// What only x86 has: CPUID, XCR0, the permission to use AMX, and the PAUSE instruction.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "platform/cpu_features.h"
#include "platform/spin.h"
#include "platform/x86/cpuid.h"

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

uint32_t ReadXcr0() {
  uint32_t eax = 0, edx = 0;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return eax;
}

CpuidAnswers AskCpu() {
  CpuidAnswers out;
  out.leaf1_ecx = CpuId(1).ecx;
  const bool has_xgetbv = Bit(out.leaf1_ecx, 27);  // and the system uses it
  if (has_xgetbv) out.xcr0 = ReadXcr0();
  const Registers leaf7 = CpuId(7, 0);
  out.leaf7_ebx = leaf7.ebx;
  out.leaf7_ecx = leaf7.ecx;
  out.leaf7_edx = leaf7.edx;
  out.leaf7_1_eax = CpuId(7, 1).eax;
  const Registers tiles = CpuId(0x1d, 1);
  out.tiles_eax = tiles.eax;
  out.tiles_ebx = tiles.ebx;
  out.tiles_ecx = tiles.ecx;
  return out;
}

// Asks Linux to let this process use the tiles' data. The answer holds for all its threads, those
// that run and those to come, and for what it forks; asking again changes nothing. From then on a
// signal's frame has 8 KB more, so that threads with an alternative stack too small for it make
// Linux refuse: hence the question before threads of ours start.
bool RequestTileData() {
#ifdef SYS_arch_prctl
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, since Linux 5.16
  constexpr int kTileData = 18;               // the bit of XCR0
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

CpuFeatures FeaturesOf(const CpuidAnswers& cpu) {
  CpuFeatures out;
  constexpr uint32_t kYmmState = 0x6;               // SSE and AVX registers
  constexpr uint32_t kZmmState = 0xe0 | kYmmState;  // and masks, upper halves, registers 16 to 31
  constexpr uint32_t kTileState = 3u << 17;         // the tiles' shapes and their data
  const auto saves = [&cpu](uint32_t state) { return (cpu.xcr0 & state) == state; };
  const bool fma = Bit(cpu.leaf1_ecx, 12), avx = Bit(cpu.leaf1_ecx, 28);
  const bool f16c = Bit(cpu.leaf1_ecx, 29);
  out.avx2 = saves(kYmmState) && avx && fma && f16c && Bit(cpu.leaf7_ebx, 5);
  const bool f = Bit(cpu.leaf7_ebx, 16), dq = Bit(cpu.leaf7_ebx, 17), cd = Bit(cpu.leaf7_ebx, 28);
  const bool bw = Bit(cpu.leaf7_ebx, 30), vl = Bit(cpu.leaf7_ebx, 31);
  out.avx512 = out.avx2 && saves(kZmmState) && f && dq && cd && bw && vl;
  out.avx_vnni = out.avx2 && Bit(cpu.leaf7_1_eax, 4);
  out.avx512_vnni = out.avx512 && Bit(cpu.leaf7_ecx, 11);
  out.avx512_bf16 = out.avx512 && Bit(cpu.leaf7_1_eax, 5);
  const bool amx_bf16 = Bit(cpu.leaf7_edx, 22), amx_tile = Bit(cpu.leaf7_edx, 24);
  const bool amx_int8 = Bit(cpu.leaf7_edx, 25);
  // Palette 1 is all that the kernels know: eight tiles of 16 rows of 64 bytes.
  const uint32_t tile_bytes = cpu.tiles_eax >> 16, row_bytes = cpu.tiles_ebx & 0xffff;
  const uint32_t n_tiles = cpu.tiles_ebx >> 16, n_rows = cpu.tiles_ecx & 0xffff;
  out.amx = saves(kTileState) && amx_tile && amx_int8 && amx_bf16 && tile_bytes == 1024 &&
            row_bytes == 64 && n_tiles == 8 && n_rows == 16;
  return out;
}

CpuFeatures DetectCpuFeatures() {
  CpuFeatures out = FeaturesOf(AskCpu());
  if (out.amx) {
    static const bool is_permitted = RequestTileData();
    out.amx_permitted = is_permitted;
  }
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
