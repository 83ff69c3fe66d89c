// kernels/cpu/isa/simd_generic.inl.h - eight float lanes in plain C++: what every machine can run.
// Included inside an anonymous namespace. Each instruction set's file defines the same names; the
// bodies in kernels/cpu/generic are written against them.

constexpr int kLanes = 8;
// A tile's rows of weights by tokens: as many sums as the registers hold.
constexpr int kTileRows = 2;
constexpr int kTileTokens = 2;

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
