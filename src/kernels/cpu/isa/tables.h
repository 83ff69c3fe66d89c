// kernels/cpu/isa/tables.h - the sparse tables of the instruction sets.
#pragma once

#include "kernels/kernel_table.h"

namespace colibri::isa {

// Complete.
extern const KernelTable kGeneric;
// An empty entry is inherited from the table before.
extern const KernelTable kAvx2;
extern const KernelTable kAvxVnni;
extern const KernelTable kAvx512;
extern const KernelTable kAvx512Vnni;
extern const KernelTable kAvx512Bf16;
extern const KernelTable kAmx;

extern const KernelTable kNeon;
extern const KernelTable kNeonDot;
extern const KernelTable kI8mm;

}  // namespace colibri::isa
