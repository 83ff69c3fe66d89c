// engine/score.h - what a row of logits says of the token that follows, how far two rows are apart,
// and the statistics of many such figures. Everything in double precision, in one fixed order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colibri {

// A mean of independent values and its standard error: the population's deviation over the square
// root of n - 1, as llama.cpp's perplexity tool has it.
struct Estimate {
  double mean = 0;
  double standard_error = 0;  // NaN below two values
};

// 1.96: within so many standard errors lie 95 % of a normal distribution.
inline constexpr double kNormal95 = 1.959963984540054;

// Gathers a mean and its standard error without keeping the values (Welford, Technometrics 1962).
class MeanAccumulator {
 public:
  void Add(double value);
  int64_t count() const { return count_; }
  Estimate Result() const;  // at least one value

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of (value - mean)^2
};

// The share of `count` of `n` >= 1 trials; its standard error is sqrt(share (1 - share) / (n - 1)).
Estimate ShareOf(int64_t count, int64_t n);

// The value below which the share `fraction` in [0, 1] of the values lies, interpolated linearly
// between the two nearest. `ascending` holds at least one value.
double Quantile(std::span<const double> ascending, double fraction);

// -log of the probability that softmax(logits) gives `token`, in nats. `logits` holds at least one
// value and `token` is one of its indices. Infinite or NaN where the logits are not finite.
double NegativeLogLikelihood(std::span<const float> logits, int32_t token);

// Two distributions of the token that follows.
struct RowComparison {
  double nll = 0;                     // of the token that does follow, in nats
  double reference_nll = 0;           // the same under the reference
  double divergence = 0;              // KL(reference || model), in nats
  double probability_difference = 0;  // model's probability of that token minus the reference's
  bool same_top = false;              // both have the same largest logit; ties go to the lower id
};

// The comparison of one row. `logits` and `reference` are as long; rounding may leave a divergence
// of about -1e-16 where the two are nearly the same, and leaves exactly 0 where they are the same.
RowComparison CompareRows(std::span<const float> logits, std::span<const float> reference,
                          int32_t token);

}  // namespace colibri
