// support/kernel_tables.h - the kernel tables that this CPU runs, as parameters of tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/select.h"
#include "support/kernel_data.h"

namespace colibri::testing {

inline std::vector<const KernelTable*> RunnableTables() {
  std::vector<const KernelTable*> out;
  for (const KernelTableChoice& choice : AllKernels()) {
    if (choice.runnable) out.push_back(choice.table);
  }
  return out;
}
inline std::string TableName(const ::testing::TestParamInfo<const KernelTable*>& info) {
  return info.param->name;
}

// A table with a type of weights.
struct TableAndType {
  const KernelTable* table;
  DType dtype;
};
// Every runnable table with every type that `takes`.
template <typename Takes>
std::vector<TableAndType> TablesAndTypes(Takes takes) {
  std::vector<TableAndType> out;
  for (const KernelTable* table : RunnableTables()) {
    for (const DType dtype : WeightDTypes()) {
      if (takes(dtype)) out.push_back({table, dtype});
    }
  }
  return out;
}
inline std::string TableAndTypeName(const ::testing::TestParamInfo<TableAndType>& info) {
  return std::string(info.param.table->name) + "_" + std::string(DTypeName(info.param.dtype));
}

}  // namespace colibri::testing
