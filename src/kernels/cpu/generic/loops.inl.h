// kernels/cpu/generic/loops.inl.h - loops over vectors and over compile-time numbers.
// Included inside an anonymous namespace, after the instruction set's vectors.

// Calls f with Index<0>, Index<1>, ...: numbers that shifts and offsets can be made of.
template <int kValue>
struct Index {
  static constexpr int value = kValue;
};
template <typename F, int... kValues>
[[gnu::always_inline]] inline void ForEachIndex(std::integer_sequence<int, kValues...>,
                                                const F& f) {
  (f(Index<kValues>()), ...);
}

constexpr int32_t MinInt(int32_t a, int32_t b) {
  return a < b ? a : b;
}

inline Vec LoadUpTo(const float* p, int count) {
  return count == kLanes ? Load(p) : LoadN(p, count);
}
inline void StoreUpTo(float* p, Vec v, int count) {
  if (count == kLanes) {
    Store(p, v);
  } else {
    StoreN(p, v, count);
  }
}

// Calls body(i, count) for each vector of n elements; count lanes of it are real.
template <typename Body>
inline void ForEachVector(size_t n, Body&& body) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}
