// moe/ffn_probe.h - which step of a feed-forward block first gave a value that is not finite.
#pragma once

#include <cstdint>

#include "moe/expert_gemm.h"

namespace colibri {

enum class FfnStep : uint8_t { kNone, kGate, kUp, kActivation, kDown };

struct FfnFault {
  FfnStep step = FfnStep::kNone;
  int32_t token = -1;  // row of the block's input
  int32_t row = -1;    // of the step's matrix
};

// Compute a group's products once more, on the calling thread, and look at them; for when a value
// is known to be bad. What ExpertGateUp and ExpertDown left is read, not changed.
FfnFault ProbeGateUp(const KernelTable& kernels, const ExpertGroup& group,
                     const GatedActivationArgs& activation, const Activations& x,
                     const ThreadScratch& scratch);
FfnFault ProbeDown(const KernelTable& kernels, const ExpertGroup& group, GatedRows gated,
                   const ThreadScratch& scratch);

}  // namespace colibri
