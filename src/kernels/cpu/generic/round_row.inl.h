// kernels/cpu/generic/round_row.inl.h - float32 to bfloat16.
// Included inside an anonymous namespace.

// By whole numbers, so that every set keeps denormals and has the same bits.
void RoundRow(const float* x, int32_t k, uint16_t* out) {
  for (int32_t i = 0; i < k; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    // A NaN's fraction may lie in its lower half alone, and rounding may carry into its sign.
    const uint32_t quiet = (bits >> 16) | 0x40u;
    out[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
  const int32_t padded = (k + kGroupColumns - 1) / kGroupColumns * kGroupColumns;
  for (int32_t i = k; i < padded; ++i) out[i] = 0;
}
