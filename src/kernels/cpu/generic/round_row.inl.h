// kernels/cpu/generic/round_row.inl.h - float32 to bfloat16.
// Included inside an anonymous namespace.

// By whole numbers, so that every set keeps denormals and has the same bits.
inline uint16_t RoundToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // A NaN's fraction may lie in its lower half alone, and rounding may carry into its sign.
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// The sum of 16 of them, in one order.
inline float SumOf16(const uint16_t* x) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    std::memcpy(&lanes[i], &bits, sizeof(bits));
  }
  for (int n = 8; n > 0; n /= 2) {
    for (int i = 0; i < n; ++i) lanes[i] += lanes[i + n];
  }
  return lanes[0];
}

void RoundRow(const float* x, int32_t k, uint16_t* out, float* sums) {
  for (int32_t i = 0; i < k; ++i) out[i] = RoundToBf16(x[i]);
  const int32_t n_groups = (k + kGroupColumns - 1) / kGroupColumns;
  for (int32_t i = k; i < n_groups * kGroupColumns; ++i) out[i] = 0;
  for (int32_t half = 0; half < 2 * n_groups; ++half) sums[half] = SumOf16(out + 16 * half);
}
