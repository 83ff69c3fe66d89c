// kernels/cpu/generic/table.inl.h - the entries that every instruction set has.
// Included inside an anonymous namespace, last.

// Sets what does not depend on how a type is stored. Runs at compile time alone, so that no inline
// function of the standard library ends up in an instruction set's object file.
consteval KernelTable CommonEntries(const char* name) {
  KernelTable table;
  table.name = name;
  table.matmul[static_cast<size_t>(DType::kF32)] = MatMulF32;
  AddPanelEntries(table);
  AddBf16Entries(table);
  AddFloatEntries(table);
  AddCodeEntries(table);
  table.round_row = RoundRow;
  table.rms_norm = RmsNorm;
  table.layer_norm = LayerNorm;
  table.gated_activation = GatedActivate;
  table.exp_sum = ExpSum;
  table.axpy = Axpy;
  table.attend = AttendEntries();
  table.store_keys = StoreKeysEntries();
  table.store_values = StoreValuesEntries();
  table.blend = Blend;
  return table;
}
