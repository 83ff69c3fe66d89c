// kernels/cpu/isa/dot_i8mm.inl.h - products of unsigned codes and signed activations by USDOT.
// Included inside an anonymous namespace, after ints_neon.inl.h.
//
// i8mm also has USMMLA: two rows by two tokens over eight columns, twice the products of USDOT. But
// a lane here is a row with four columns, so that zips have to bring a row's eight columns
// together, others two tokens', and at the end unzips the rows of a token: llvm-mca 19 gives such a
// tile of 4 rows by 8 tokens and 32 columns 69, 71 and 62 cycles (q4_0, q4_k, q8_0; Neoverse N2),
// and 63, 73 and 61 with USDOT. On Neoverse V2 both take half of that.

constexpr bool kHasUnsignedDot = true;

// sum + the four products of a lane's codes and lane kLane of activations.
template <bool kBiased, int kLane>
inline IVec DotLane(IVec sum, IVec codes, IVec x) {
  static_assert(!kBiased);
  return vusdotq_laneq_s32(sum, vreinterpretq_u8_s32(codes), vreinterpretq_s8_s32(x), kLane);
}
