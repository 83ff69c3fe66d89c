// engine/sampler.h - chooses the next token from logits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"

namespace colibri {

// How the next token is chosen. Applied in this order, which is Hugging Face's:
//   1. repetition penalty   every token of prompt and answer: logit / p where positive, * p where
//   not
//   2. presence, frequency  every token of the answer: logit - presence - frequency * occurrences
//   3. logit bias           added
//   4. temperature          0 ends here: the largest logit, ties to the lower id
//   5. top_k                the k largest logits, ties to the lower id
//   6. top_p                the fewest of the most likely whose probabilities reach p
//   7. min_p                those at least min_p times as likely as the likeliest
// and a draw from what is left, with probabilities renormalised.
struct SamplingParams {
  float temperature = 0;         // [0, 100]; 0: greedy
  int32_t top_k = 0;             // >= 0; 0: all
  float top_p = 1;               // (0, 1]; 1: all
  float min_p = 0;               // [0, 1]; 0: all
  float repetition_penalty = 1;  // (0, 100]; 1: none
  float presence_penalty = 0;    // [-100, 100]
  float frequency_penalty = 0;   // [-100, 100]
  std::vector<std::pair<int32_t, float>> logit_bias =
      {};  // token id, [-100, 100]; ids are distinct
  uint64_t seed = 0;
};

// InvalidArgument that names the field, its value and its range.
Status ValidateSampling(const SamplingParams& params, int32_t vocab_size);

// The tokens of a sequence so far: its first n_prompt are the prompt's.
struct TokenHistory {
  std::span<const int32_t> tokens;
  size_t n_prompt = 0;
};

// Holds the working memory of a draw, so that one sampler serves any number of sequences, one after
// the other. Not thread-safe; allocates in its constructor alone.
class Sampler {
 public:
  explicit Sampler(int32_t vocab_size);

  // The next token of a sequence.
  //   logits   [vocab_size], not modified. -infinity forbids a token; NaN or +infinity, or nothing
  //            left to choose from, is InvalidArgument and names the token id.
  //   params   valid for this vocabulary
  //   history  ids in [0, vocab_size)
  // Randomness depends on params.seed and history.tokens.size() alone.
  Result<int32_t> Sample(const SamplingParams& params, std::span<const float> logits,
                         const TokenHistory& history);

 private:
  std::span<const float> Adjust(const SamplingParams& params, std::span<const float> logits,
                                const TokenHistory& history);
  int32_t Draw(const SamplingParams& params, std::span<const float> logits, float max,
               int64_t position);

  std::vector<float> adjusted_;      // [vocab_size]
  std::vector<int32_t> candidates_;  // [vocab_size] token ids
  std::vector<double> weights_;      // [vocab_size] of the candidates, exp((logit - max) / T)
  std::vector<int32_t> counts_;      // [vocab_size] zero between calls
};

// The Philox4x32-10 counter-based generator: Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011. A bijection of the counter for each key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Uniform in [0, 1), 53 bits, for one position of the sequence with this seed.
double UniformAt(uint64_t seed, uint64_t position);

}  // namespace colibri
