// kernels/select.h - which kernel table this machine runs.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/kernel_table.h"
#include "platform/cpu_features.h"

namespace colibri {

// The fastest table that this CPU can run, or the one that `forced` names (empty: no override).
// Unsupported when the forced one does not exist (the message lists those that do) or cannot run
// here (the message says what is missing). The table lives as long as the program.
Result<const KernelTable*> SelectKernels(std::string_view forced);

// The same on a machine with these features.
Result<const KernelTable*> SelectKernels(std::string_view forced, const CpuFeatures& features);

// SelectKernels with the environment's COLIBRI_FORCE_ISA, which errors name.
Result<const KernelTable*> SelectKernelsFromEnvironment();

// All tables of this build, slowest first, with whether this CPU can run each: for tests and
// `colibri inspect`.
struct KernelTableChoice {
  const KernelTable* table;
  bool runnable;
};
std::vector<KernelTableChoice> AllKernels();

}  // namespace colibri
