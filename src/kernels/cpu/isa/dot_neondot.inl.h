// kernels/cpu/isa/dot_neondot.inl.h - products of bytes by SDOT, which takes signed ones alone.
// Included inside an anonymous namespace, after ints_neon.inl.h.

constexpr bool kHasUnsignedDot = false;

// sum + the four products of a lane's codes (less 128 where kBiased) and lane kLane of activations.
template <bool kBiased, int kLane>
inline IVec DotLane(IVec sum, IVec codes, IVec x) {
  int8x16_t w = vreinterpretq_s8_s32(codes);
  if constexpr (kBiased) w = veorq_s8(w, vdupq_n_s8(-128));
  return vdotq_laneq_s32(sum, w, vreinterpretq_s8_s32(x), kLane);
}
