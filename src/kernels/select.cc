#include "kernels/select.h"

#include <cstdlib>
#include <iterator>
#include <string>

#include "base/strings.h"
#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/tables.h"

namespace colibri {
namespace {

// The entries of `newer`, and those of `base` where it has none.
KernelTable Inherit(const KernelTable& base, const KernelTable& newer) {
  KernelTable out = base;
  out.name = newer.name;
  const auto take = [](auto& entry, auto candidate) {
    if (candidate != nullptr) entry = candidate;
  };
  for (size_t i = 0; i < kNumDTypes; ++i) {
    take(out.decode[i], newer.decode[i]);
    take(out.matmul[i], newer.matmul[i]);
    take(out.panel_matmul[i], newer.panel_matmul[i]);
    take(out.bf16_matmul[i], newer.bf16_matmul[i]);
    take(out.float_matmul[i], newer.float_matmul[i]);
  }
  take(out.quantize_row, newer.quantize_row);
  take(out.round_row, newer.round_row);
  take(out.rms_norm, newer.rms_norm);
  take(out.layer_norm, newer.layer_norm);
  take(out.gated_activation, newer.gated_activation);
  take(out.exp_sum, newer.exp_sum);
  take(out.axpy, newer.axpy);
  for (size_t i = 0; i < kNumKvTypes; ++i) {
    take(out.attend[i], newer.attend[i]);
    take(out.store_keys[i], newer.store_keys[i]);
    take(out.store_values[i], newer.store_values[i]);
  }
  take(out.blend, newer.blend);
  return out;
}

struct FullTable {
  KernelTable table;
  const InstructionSet* set;
};

// Slowest first, each with all entries.
const std::vector<FullTable>& FullTables() {
  static const std::vector<FullTable> tables = [] {
    std::vector<FullTable> out;
    for (const InstructionSet& set : InstructionSets()) {
      out.push_back({out.empty() ? *set.table : Inherit(out.back().table, *set.table), &set});
    }
    return out;
  }();
  return tables;
}

}  // namespace

std::vector<KernelTableChoice> AllKernels() {
  const CpuFeatures features = DetectCpuFeatures();
  std::vector<KernelTableChoice> out;
  for (const FullTable& full : FullTables()) {
    out.push_back({&full.table, full.set->is_runnable(features)});
  }
  return out;
}

Result<const KernelTable*> SelectKernels(std::string_view forced) {
  return SelectKernels(forced, DetectCpuFeatures());
}

Result<const KernelTable*> SelectKernels(std::string_view forced, const CpuFeatures& features) {
  const KernelTable* fastest = nullptr;
  std::vector<std::string> names;
  for (const FullTable& full : FullTables()) {
    const bool is_runnable = full.set->is_runnable(features);
    if (is_runnable) fastest = &full.table;
    names.emplace_back(full.table.name);
    if (forced != full.table.name) continue;
    if (!is_runnable) {
      const std::string_view lacks =
          full.set->missing == nullptr ? full.set->needs : full.set->missing(features);
      return Unsupported(StrCat("the instruction set ", forced, " cannot run here: this CPU (",
                                CpuName(), ") or its operating system lacks ", lacks));
    }
    return &full.table;
  }
  if (!forced.empty()) {
    return Unsupported(StrCat(Printable(forced), " is no instruction set of this build; it has ",
                              StrJoin(names, ", ")));
  }
  COLIBRI_CHECK(fastest != nullptr);
  return fastest;
}

Result<const KernelTable*> SelectKernelsFromEnvironment() {
  const char* const forced = std::getenv("COLIBRI_FORCE_ISA");
  Result<const KernelTable*> table = SelectKernels(forced == nullptr ? "" : forced);
  if (!table.ok()) return std::move(table).status().WithContext("COLIBRI_FORCE_ISA");
  return table;
}

}  // namespace colibri
