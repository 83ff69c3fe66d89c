#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace colibri {
namespace {

// theta^(2i/n) in float32, as transformers computes it: at long contexts a last bit of a frequency
// is visible in an angle.
std::vector<float> Wavelengths(double theta, int32_t n_rotary) {
  std::vector<float> out(static_cast<size_t>(n_rotary) / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = std::pow(static_cast<float>(theta),
                      static_cast<float>(2 * i) / static_cast<float>(n_rotary));
  }
  return out;
}

// YaRN: dimensions that turn often keep their frequency, those that turn seldom are interpolated,
// with a ramp between.
void ApplyYarn(const RopeSpec& spec, const std::vector<float>& wavelengths,
               std::vector<float>& frequencies) {
  const double n = spec.n_rotary;
  const auto dimension_of = [&](double rotations) {
    return n *
           std::log(static_cast<double>(spec.original_positions) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(spec.theta));
  };
  double low = dimension_of(spec.beta_fast), high = dimension_of(spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, n - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const auto ramp =
        static_cast<float>((static_cast<double>(static_cast<float>(i)) - low) / (high - low));
    const float keep = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    const float extrapolated = 1.0f / wavelengths[i];
    const float interpolated = 1.0f / (static_cast<float>(spec.factor) * wavelengths[i]);
    frequencies[i] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
}

void ApplyLlama3(const RopeSpec& spec, std::vector<float>& frequencies) {
  const double low_wavelength = static_cast<double>(spec.original_positions) / spec.low_freq_factor;
  const double high_wavelength =
      static_cast<double>(spec.original_positions) / spec.high_freq_factor;
  for (float& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < high_wavelength) continue;
    if (wavelength > low_wavelength) {
      frequency = static_cast<float>(static_cast<double>(frequency) / spec.factor);
      continue;
    }
    const double smooth =
        (static_cast<double>(spec.original_positions) / wavelength - spec.low_freq_factor) /
        (spec.high_freq_factor - spec.low_freq_factor);
    const double f = static_cast<double>(frequency);
    frequency = static_cast<float>((1 - smooth) * f / spec.factor + smooth * f);
  }
}

double DynamicTheta(const RopeSpec& spec, int64_t max_context) {
  const double exponent = static_cast<double>(spec.n_rotary) / (spec.n_rotary - 2);
  if (spec.alpha > 0) return spec.theta * std::pow(spec.alpha, exponent);
  if (max_context <= spec.max_positions) return spec.theta;
  const double stretch =
      spec.factor * static_cast<double>(max_context) / static_cast<double>(spec.max_positions) -
      (spec.factor - 1);
  return spec.theta * std::pow(stretch, exponent);
}

bool IsLong(const RopeSpec& spec, int64_t max_context) {
  return max_context > spec.original_positions;
}

}  // namespace

std::vector<float> RopeInverseFrequencies(const RopeSpec& spec, int64_t max_context) {
  const double theta =
      spec.scaling == RopeScaling::kDynamic ? DynamicTheta(spec, max_context) : spec.theta;
  const std::vector<float> wavelengths = Wavelengths(theta, spec.n_rotary);
  std::vector<float> frequencies(wavelengths.size());
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0f / wavelengths[i];
  switch (spec.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:
      break;
    case RopeScaling::kLinear:
      for (float& frequency : frequencies) frequency /= static_cast<float>(spec.factor);
      break;
    case RopeScaling::kYarn:
      ApplyYarn(spec, wavelengths, frequencies);
      break;
    case RopeScaling::kLongRope: {
      const std::vector<double>& factors =
          IsLong(spec, max_context) ? spec.long_factors : spec.short_factors;
      for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = 1.0f / (static_cast<float>(factors[i]) * wavelengths[i]);
      break;
    }
    case RopeScaling::kLlama3:
      ApplyLlama3(spec, frequencies);
      break;
  }
  return frequencies;
}

float RopeAttentionFactor(const RopeSpec& spec, int64_t max_context) {
  return static_cast<float>(spec.attention_factor * (IsLong(spec, max_context)
                                                         ? spec.long_attention_factor
                                                         : spec.short_attention_factor));
}

void RopeCosSin(std::span<const float> inverse_frequencies, float attention_factor,
                int64_t position, float* cos, float* sin) {
  for (size_t i = 0; i < inverse_frequencies.size(); ++i) {
    const float angle = static_cast<float>(position) * inverse_frequencies[i];
    cos[i] = std::cos(angle) * attention_factor;
    sin[i] = std::sin(angle) * attention_factor;
  }
}

void ApplyRope(RopeLayout layout, int32_t n_pairs, const float* cos, const float* sin, float* x) {
  const int32_t step = layout == RopeLayout::kHalf ? 1 : 2;
  const int32_t partner = layout == RopeLayout::kHalf ? n_pairs : 1;
  for (int32_t i = 0; i < n_pairs; ++i) {
    float* a = x + static_cast<ptrdiff_t>(i) * step;
    float* b = a + partner;
    const float turned = *a * cos[i] - *b * sin[i];
    *b = *b * cos[i] + *a * sin[i];
    *a = turned;
  }
}

}  // namespace colibri
