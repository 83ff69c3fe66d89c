// platform/cpu_features.h - which instruction sets this machine can run.
#pragma once

#include <string>

namespace colibri {

// True where both the CPU has the instructions and the operating system keeps their registers.
struct CpuFeatures {
  bool avx2 = false;      // with FMA and F16C
  bool avx_vnni = false;  // with avx2
  bool avx512 = false;    // F, BW, DQ, VL, CD, with avx2
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx = false;            // TILE, INT8 and BF16
  bool amx_permitted = false;  // the kernel lets this process use AMX's tiles; with amx

  bool neon = false;     // aarch64's Advanced SIMD
  bool dotprod = false;  // SDOT and UDOT, with neon
  bool i8mm = false;     // USDOT and the matrix products of bytes, with dotprod
};

// Asks the CPU; the same answer at every call. Where the CPU has AMX, the first call also asks the
// kernel to let this process use it: call it before threads that set up a small alternative signal
// stack.
CpuFeatures DetectCpuFeatures();

// The processor's own name ("AMD EPYC 9555", "Arm Neoverse-N1"), or "unknown".
std::string CpuName();

}  // namespace colibri
