// kernels/cpu/tables.h - the instruction sets of this build and what each needs.
#pragma once

#include <span>
#include <string_view>

#include "kernels/kernel_table.h"
#include "platform/cpu_features.h"

namespace colibri {

struct InstructionSet {
  const KernelTable* table;  // an empty entry is inherited from the set before
  bool (*is_runnable)(const CpuFeatures&);
  std::string_view needs;  // for messages
  // Which of its needs the machine lacks, for messages; null: `needs` says enough.
  std::string_view (*missing)(const CpuFeatures&) = nullptr;
};

// Slowest first; the first is complete and runs everywhere. One definition per architecture.
std::span<const InstructionSet> InstructionSets();

}  // namespace colibri
