#include "engine/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace colibri {
namespace {

// A row of logits as log-probabilities. The largest logit is taken off first: the difference of two
// float32 is nearly always exact in double, so that large logits cost no digits.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits) : logits_(logits) {
    top_ = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    largest_ = logits[top_];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - largest_);
    log_sum_ = std::log(sum);
  }

  double operator[](size_t i) const { return logits_[i] - largest_ - log_sum_; }
  size_t top() const { return top_; }

 private:
  std::span<const float> logits_;
  size_t top_ = 0;
  double largest_ = 0;
  double log_sum_ = 0;
};

}  // namespace

void MeanAccumulator::Add(double value) {
  ++count_;
  const double from_old_mean = value - mean_;
  mean_ += from_old_mean / static_cast<double>(count_);
  squares_ += from_old_mean * (value - mean_);
}

Estimate MeanAccumulator::Result() const {
  COLIBRI_CHECK(count_ > 0);
  if (count_ < 2) return {mean_, std::numeric_limits<double>::quiet_NaN()};
  const auto n = static_cast<double>(count_);
  return {mean_, std::sqrt(squares_ / n / (n - 1))};
}

Estimate ShareOf(int64_t count, int64_t n) {
  COLIBRI_CHECK(n > 0 && count >= 0 && count <= n);
  const double share = static_cast<double>(count) / static_cast<double>(n);
  if (n < 2) return {share, std::numeric_limits<double>::quiet_NaN()};
  return {share, std::sqrt(share * (1 - share) / static_cast<double>(n - 1))};
}

double Quantile(std::span<const double> ascending, double fraction) {
  COLIBRI_CHECK(!ascending.empty() && fraction >= 0 && fraction <= 1);
  const double place = fraction * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  const double weight = place - static_cast<double>(below);
  return (1 - weight) * ascending[below] + weight * ascending[above];
}

double NegativeLogLikelihood(std::span<const float> logits, int32_t token) {
  COLIBRI_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  return -LogSoftmax(logits)[static_cast<size_t>(token)];
}

RowComparison CompareRows(std::span<const float> logits, std::span<const float> reference,
                          int32_t token) {
  COLIBRI_CHECK(logits.size() == reference.size());
  COLIBRI_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  const LogSoftmax model(logits);
  const LogSoftmax base(reference);
  RowComparison out;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double probability = std::exp(base[i]);
    // A token that the reference excludes adds nothing, whatever the model thinks of it.
    if (probability > 0) out.divergence += probability * (base[i] - model[i]);
  }
  const auto next = static_cast<size_t>(token);
  out.nll = -model[next];
  out.reference_nll = -base[next];
  out.probability_difference = std::exp(model[next]) - std::exp(base[next]);
  out.same_top = model.top() == base.top();
  return out;
}

}  // namespace colibri
