// kernels/cpu/isa/simd_generic.inl.h - eight float lanes in plain C++: what every machine can run.
// Included inside an anonymous namespace. Each instruction set's file defines the same names; the
// bodies in kernels/cpu/generic are written against them.

constexpr int kLanes = 8;
// A tile's rows of weights by tokens: as many sums as the registers hold.
constexpr int kTileRows = 2;
constexpr int kTileTokens = 2;
// A tile of attention: so many queries by so many vectors of positions or columns.
constexpr int kAttendQueries = 4;
constexpr int kAttendVectors = 1;

typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

// Lanes 0 to 3 and 4 to 7.
struct Vec {
  Float4 a, b;
};

inline Vec Zero() {
  return {Float4{0, 0, 0, 0}, Float4{0, 0, 0, 0}};
}
inline void KeepInRegister(Vec&) {
}
inline Vec Set1(float x) {
  return {Float4{x, x, x, x}, Float4{x, x, x, x}};
}
inline Vec Load(const void* p) {
  Vec out;
  std::memcpy(&out.a, p, sizeof(out.a));
  std::memcpy(&out.b, static_cast<const char*>(p) + sizeof(out.a), sizeof(out.b));
  return out;
}
inline void Store(float* p, Vec v) {
  std::memcpy(p, &v.a, sizeof(v.a));
  std::memcpy(p + 4, &v.b, sizeof(v.b));
}
// The first n lanes, 0 <= n <= kLanes, and zeros; nothing beyond is read.
inline Vec LoadN(const void* p, int n) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return Load(lanes);
}
inline void StoreN(float* p, Vec v, int n) {
  float lanes[kLanes];
  Store(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}
// The first n lanes of v, the others zero.
inline Vec KeepN(Vec v, int n) {
  float lanes[kLanes];
  Store(lanes, v);
  return LoadN(lanes, n);
}
inline Vec Add(Vec x, Vec y) {
  return {x.a + y.a, x.b + y.b};
}
inline Vec Sub(Vec x, Vec y) {
  return {x.a - y.a, x.b - y.b};
}
inline Vec Mul(Vec x, Vec y) {
  return {x.a * y.a, x.b * y.b};
}
inline Vec Div(Vec x, Vec y) {
  return {x.a / y.a, x.b / y.b};
}
// x * y + z. Rounded twice here: a fused one costs a library call on a baseline machine.
inline Vec Fma(Vec x, Vec y, Vec z) {
  return {x.a * y.a + z.a, x.b * y.b + z.b};
}

inline Float4 Choose(Int4 mask, Float4 x, Float4 y) {
  return (Float4)((mask & (Int4)x) | (~mask & (Int4)y));
}
// The larger and smaller of two; y where either is NaN.
inline Vec Max(Vec x, Vec y) {
  return {Choose(x.a > y.a, x.a, y.a), Choose(x.b > y.b, x.b, y.b)};
}
inline Vec Min(Vec x, Vec y) {
  return {Choose(x.a < y.a, x.a, y.a), Choose(x.b < y.b, x.b, y.b)};
}
// A lane of x where the lane of v is below zero, else of y.
inline Vec IfNegative(Vec v, Vec x, Vec y) {
  const Float4 zero = {0, 0, 0, 0};
  return {Choose(v.a < zero, x.a, y.a), Choose(v.b < zero, x.b, y.b)};
}
// -|v|
inline Vec NegAbs(Vec v) {
  const Int4 sign = Int4{} + INT32_MIN;
  return {(Float4)((Int4)v.a | sign), (Float4)((Int4)v.b | sign)};
}
// To the nearest whole number, |v| < 2^22.
inline Vec Round(Vec v) {
  const Vec magic = Set1(12582912.0f);  // 1.5 * 2^23
  return Sub(Add(v, magic), magic);
}
inline Float4 PowerOfTwo(Int4 n) {
  return (Float4)((n + 127) << 23);
}
inline Float4 ScaleByPower(Float4 v, Float4 n) {
  // NaN becomes some number here; v is NaN too then.
  const Int4 whole = Int4{} + 0x4b400000;
  const Float4 magic = Float4{} + 12582912.0f;
  const Int4 power = (Int4)(n + magic) - whole;
  const Int4 half = power >> 1;
  return v * PowerOfTwo(half) * PowerOfTwo(power - half);
}
// v * 2^n for whole n, |n| <= 250.
inline Vec ScaleByPower(Vec v, Vec n) {
  return {ScaleByPower(v.a, n.a), ScaleByPower(v.b, n.b)};
}

// The sum of the lanes, in one fixed order.
inline float ReduceSum(Vec v) {
  const Float4 s = v.a + v.b;
  return (s[0] + s[1]) + (s[2] + s[3]);
}
inline float ReduceMax(Vec v) {
  const Float4 m = Max(v, Vec{v.b, v.a}).a;
  const float x = m[0] > m[1] ? m[0] : m[1];
  const float y = m[2] > m[3] ? m[2] : m[3];
  return x > y ? x : y;
}
// out[i] = the sum of the lanes of the vector at v + i * kLanes, each in the same order.
inline void ReduceSum8(const float* v, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = ReduceSum(Load(v + i * kLanes));
}

// A binary16 as float32, exactly.
inline float Half(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t bits = static_cast<uint32_t>(half & 0x7fffu) << 13;
  float out;
  if (bits >= 0x7c00u << 13) {  // infinity and NaN
    bits |= 0x7f800000u;
    std::memcpy(&out, &bits, sizeof(out));
  } else {
    // The exponent's bias differs by 112; a product gets subnormal numbers right too.
    std::memcpy(&out, &bits, sizeof(out));
    out *= 0x1p112f;
  }
  std::memcpy(&bits, &out, sizeof(bits));
  bits |= sign;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}
// The nearest binary16, ties to even; infinity beyond its range.
inline uint16_t RoundToHalf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (bits >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (bits < 0x38800000u) {
    // Below the smallest normal number the steps are 2^-24: adding 1/2 leaves their count, rounded,
    // in the low bits.
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, sizeof(bits));
    return static_cast<uint16_t>(sign | (bits - 0x3f000000u));
  }
  bits += 0xfffu + ((bits >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((bits - 0x38000000u) >> 13));
}

// kLanes of a 16-bit type, and of signed bytes.
inline Vec LoadF16(const uint8_t* p) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = Half(p + i * 2);
  return Load(lanes);
}
inline Vec LoadBF16(const uint8_t* p) {
  uint32_t lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    uint16_t upper;
    std::memcpy(&upper, p + i * 2, sizeof(upper));
    lanes[i] = static_cast<uint32_t>(upper) << 16;
  }
  return Load(lanes);
}
inline Vec LoadInt8(const uint8_t* p) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<float>(static_cast<int8_t>(p[i]));
  return Load(lanes);
}

// out[j][i] = in[i][j] for i, j < 8; rows are a stride apart.
inline void Transpose8x8(const float* in, size_t in_stride, float* out, size_t out_stride) {
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 8; ++j) out[j * out_stride + i] = in[i * in_stride + j];
  }
}
