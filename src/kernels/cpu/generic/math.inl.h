// kernels/cpu/generic/math.inl.h - exponential and what follows from it, lane by lane.
// Included inside an anonymous namespace, after the instruction set's vectors.

// e^x within 2 units in the last place; 0 below -104, infinity above 88.8, NaN stays NaN.
inline Vec Exp(Vec x) {
  // Both bounds lie where the result has long been 0 or infinity; the operands' order keeps NaN.
  const Vec bounded = Min(Set1(130.0f), Max(Set1(-150.0f), x));
  const Vec n = Round(Mul(bounded, Set1(1.44269504f)));  // 1 / ln 2
  // ln 2 in two parts, the first with so few bits that n times it is exact.
  Vec r = Fma(n, Set1(-0.693359375f), bounded);
  r = Fma(n, Set1(2.12194440e-4f), r);
  // (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, by minimax.
  Vec p = Set1(1.3814593e-3f);
  p = Fma(p, r, Set1(8.3687194e-3f));
  p = Fma(p, r, Set1(4.1668389e-2f));
  p = Fma(p, r, Set1(1.6666521e-1f));
  p = Fma(p, r, Set1(4.9999994e-1f));
  p = Add(Fma(p, Mul(r, r), r), Set1(1.0f));
  return ScaleByPower(p, n);
}

// 1 / (1 + e^-x) with the full relative precision on both sides.
inline Vec Sigmoid(Vec x) {
  const Vec e = Exp(NegAbs(x));
  return Div(IfNegative(x, e, Set1(1.0f)), Add(e, Set1(1.0f)));
}
