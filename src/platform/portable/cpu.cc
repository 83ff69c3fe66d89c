// For architectures whose instruction sets have no tables of their own yet.
#include "platform/cpu_features.h"
#include "platform/spin.h"

namespace colibri {

CpuFeatures DetectCpuFeatures() {
  return {};
}

std::string CpuName() {
  return "unknown";
}

void SpinPause() {
  __asm__ volatile("" ::: "memory");
}

}  // namespace colibri
