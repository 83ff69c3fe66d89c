// model/rope.h - rotary position embeddings: how the frequencies come about and how rows are
// rotated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace colibri {

enum class RopeLayout : uint8_t {
  kHalf,         // element i turns with element i + n/2 (GPT-NeoX)
  kInterleaved,  // element 2i turns with element 2i + 1 (GPT-J)
};

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,    // positions divided by a factor
  kDynamic,   // NTK: the base grows with a factor or alpha that the file gives
  kYarn,      // arXiv:2309.00071
  kLongRope,  // arXiv:2402.13753: a factor a frequency, for short and for long contexts
  kLlama3,    // Llama 3.1's smoothed scaling
};

struct RopeSpec {
  RopeLayout layout = RopeLayout::kHalf;
  int32_t n_rotary = 0;  // leading elements of a head that turn; even
  double theta = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  int64_t original_positions = 0;
  int64_t max_positions = 0;             // kDynamic: the context up to which nothing changes
  double beta_fast = 32, beta_slow = 1;  // YaRN
  bool truncate = true;                  // YaRN: correction range rounded to whole dimensions
  double alpha = 0;                      // kDynamic: Hunyuan's own form, base * alpha^(d / (d - 2))
  double low_freq_factor = 1, high_freq_factor = 4;           // kLlama3
  std::vector<double> short_factors = {}, long_factors = {};  // kLongRope, [n_rotary / 2]
  double attention_factor = 1;  // multiplies cosines and sines (YaRN's mscale)
  // Multiply it, for contexts up to original_positions and beyond (PhiMoE).
  double short_attention_factor = 1, long_attention_factor = 1;
};

// The inverse frequencies, [n_rotary / 2] float32, for an engine whose sequences hold up to
// max_context positions (LongRoPE picks its factors by that, so that a token's rotation never
// depends on the length of its batch).
std::vector<float> RopeInverseFrequencies(const RopeSpec& spec, int64_t max_context);
// What multiplies cosines and sines for that context.
float RopeAttentionFactor(const RopeSpec& spec, int64_t max_context);

// Cosines and sines of one position: cos and sin are [n_rotary / 2]. Angles are computed in float32
// from float32 frequencies, as transformers does.
void RopeCosSin(std::span<const float> inverse_frequencies, float attention_factor,
                int64_t position, float* cos, float* sin);

// Turns the first 2 * n_pairs elements of x in place.
void ApplyRope(RopeLayout layout, int32_t n_pairs, const float* cos, const float* sin, float* x);

}  // namespace colibri
