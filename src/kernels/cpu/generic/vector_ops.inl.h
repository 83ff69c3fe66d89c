// kernels/cpu/generic/vector_ops.inl.h - norms, activations, softmax's and attention's sums.
// Included inside an anonymous namespace, after math.inl.h.

// The sum over i < n of term(i, count), a vector whose lanes at `count` and beyond are zero. Four
// sums side by side, element i always in lane i % kLanes of sum i / kLanes % 4.
template <typename Term>
inline float SumOf(size_t n, Term&& term) {
  constexpr size_t kStep = kLanes;
  Vec sum[4] = {Zero(), Zero(), Zero(), Zero()};
  size_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    for (size_t j = 0; j < 4; ++j) sum[j] = Add(sum[j], term(i + j * kStep, kLanes));
  }
  for (size_t j = 0; i < n; i += kStep, ++j) {
    const int count = n - i < kStep ? static_cast<int>(n - i) : kLanes;
    sum[j] = Add(sum[j], term(i, count));
  }
  return ReduceSum(Add(Add(sum[0], sum[1]), Add(sum[2], sum[3])));
}

void RmsNorm(const float* x, const float* weight, float eps, size_t n, float* out) {
  const float squares = SumOf(n, [&](size_t i, int count) {
    const Vec v = LoadUpTo(x + i, count);
    return Mul(v, v);
  });
  const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps);
  ForEachVector(n, [&](size_t i, int count) {
    Vec v = Mul(LoadUpTo(x + i, count), Set1(inverse));
    if (weight != nullptr) v = Mul(v, LoadUpTo(weight + i, count));
    StoreUpTo(out + i, v, count);
  });
}

void LayerNorm(const float* x, const float* weight, const float* bias, float eps, size_t n,
               float* out) {
  const float sum = SumOf(n, [&](size_t i, int count) { return LoadUpTo(x + i, count); });
  const Vec mean = Set1(sum / static_cast<float>(n));
  const float squares = SumOf(n, [&](size_t i, int count) {
    const Vec v = Sub(LoadUpTo(x + i, count), mean);
    const Vec square = Mul(v, v);
    return count == kLanes ? square : KeepN(square, count);
  });
  const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps);
  ForEachVector(n, [&](size_t i, int count) {
    Vec v = Mul(Sub(LoadUpTo(x + i, count), mean), Set1(inverse));
    if (weight != nullptr) v = Mul(v, LoadUpTo(weight + i, count));
    if (bias != nullptr) v = Add(v, LoadUpTo(bias + i, count));
    StoreUpTo(out + i, v, count);
  });
}

template <typename Activation>
inline void ApplyGated(const float* gate, const float* up, size_t n, float* out, Activation&& f) {
  ForEachVector(n, [&](size_t i, int count) {
    StoreUpTo(out + i, f(LoadUpTo(gate + i, count), LoadUpTo(up + i, count)), count);
  });
}

void GatedActivate(const GatedActivationArgs& args, const float* gate, const float* up, size_t n,
                   float* out) {
  switch (args.kind) {
    case GatedActivation::kSilu:
      ApplyGated(gate, up, n, out, [](Vec g, Vec u) { return Mul(Mul(g, Sigmoid(g)), u); });
      return;
    case GatedActivation::kGeluTanh:
      // (1 + tanh(z)) / 2 is sigmoid(2z).
      ApplyGated(gate, up, n, out, [](Vec g, Vec u) {
        const Vec cubic = Fma(Mul(Mul(g, g), g), Set1(0.044715f), g);
        return Mul(Mul(g, Sigmoid(Mul(cubic, Set1(1.59576912f)))), u);  // 2 sqrt(2 / pi)
      });
      return;
    case GatedActivation::kGeluErf:
      // No family's experts are gated by it in float32 hot loops: the library's function serves.
      for (size_t i = 0; i < n; ++i) {
        const double g = static_cast<double>(gate[i]);
        const double half = 0.5 * g * erfc(-g * 0.70710678118654752440);  // sqrt(1/2)
        out[i] = static_cast<float>(half) * up[i];
      }
      return;
    case GatedActivation::kRelu2:
      ApplyGated(gate, up, n, out, [](Vec g, Vec u) {
        const Vec positive = Max(Zero(), g);
        return Mul(Mul(positive, positive), u);
      });
      return;
    case GatedActivation::kSwigluOai: {
      const Vec alpha = Set1(args.alpha);
      const Vec limit = Set1(args.limit);
      const Vec low = Set1(-args.limit);
      ApplyGated(gate, up, n, out, [&](Vec g, Vec u) {
        const Vec bounded_gate = Min(limit, g);
        const Vec bounded_up = Max(low, Min(limit, u));
        const Vec glu = Mul(bounded_gate, Sigmoid(Mul(alpha, bounded_gate)));
        return Mul(Add(bounded_up, Set1(1.0f)), glu);
      });
      return;
    }
  }
}

float ExpSum(float* x, size_t n, float max) {
  const Vec shift = Set1(max);
  return SumOf(n, [&](size_t i, int count) {
    const Vec e = Exp(Sub(LoadUpTo(x + i, count), shift));
    StoreUpTo(x + i, e, count);
    return count == kLanes ? e : KeepN(e, count);
  });
}

void Axpy(float a, const float* x, size_t n, float* y) {
  const Vec factor = Set1(a);
  ForEachVector(n, [&](size_t i, int count) {
    StoreUpTo(y + i, Fma(factor, LoadUpTo(x + i, count), LoadUpTo(y + i, count)), count);
  });
}
