// kernels/cpu/generic/reference.inl.h - matmuls of the types whose decoder is the reference's.
// Included inside an anonymous namespace, after matmul.inl.h.

template <DType kType>
void DecodeReference(const void* src, float* dst, size_t n) {
  DequantizeReference(kType, src, dst, n);
}

template <DType kType>
void MatMulReference(const MatMulArgs& args) {
  const DTypeInfo& info = GetDTypeInfo(kType);
  MatMulDecoded(args, {DecodeReference<kType>,
                       static_cast<size_t>(kColumnChunk) / info.block_elements * info.block_bytes});
}

// Every type but float32. Those that are no weights fail in the reference decoder, as they should.
template <size_t... kTypes>
consteval KernelTable WithReferenceDecoders(KernelTable table, std::index_sequence<kTypes...>) {
  ((table.decode[kTypes] = DecodeReference<static_cast<DType>(kTypes)>), ...);
  ((table.matmul[kTypes] = MatMulReference<static_cast<DType>(kTypes)>), ...);
  table.matmul[static_cast<size_t>(DType::kF32)] = MatMulF32;
  return table;
}
