#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/tables.h"

namespace colibri {

std::span<const InstructionSet> InstructionSets() {
  static constexpr InstructionSet kSets[] = {
      {&isa::kGeneric, [](const CpuFeatures&) { return true; }, "nothing"},
  };
  return kSets;
}

}  // namespace colibri
