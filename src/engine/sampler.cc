#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/strings.h"

namespace colibri {
namespace {

struct Range {
  std::string_view field;
  double value;
  double low, high;
  bool low_included;
};

Status CheckRange(const Range& r) {
  const bool above = r.low_included ? r.value >= r.low : r.value > r.low;
  if (above && r.value <= r.high) return Status();
  return InvalidArgument(StrCat(r.field, " is ", r.value, ", must be in ",
                                r.low_included ? '[' : '(', r.low, ", ", r.high, ']'));
}

// The order of choice: the larger logit, of equal ones the lower id.
struct MoreLikely {
  std::span<const float> logits;
  bool operator()(int32_t a, int32_t b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

// Candidates that the first round of a partial sort brings into order; each round takes three times
// as many again, so that a flat distribution costs no more than a whole sort.
constexpr ptrdiff_t kFirstSorted = 64;

}  // namespace

Status ValidateSampling(const SamplingParams& params, int32_t vocab_size) {
  for (const Range& range : {
           Range{"temperature", params.temperature, 0, 100, true},
           Range{"top_k", static_cast<double>(params.top_k), 0, 2147483647, true},
           Range{"top_p", params.top_p, 0, 1, false},
           Range{"min_p", params.min_p, 0, 1, true},
           Range{"repetition_penalty", params.repetition_penalty, 0, 100, false},
           Range{"presence_penalty", params.presence_penalty, -100, 100, true},
           Range{"frequency_penalty", params.frequency_penalty, -100, 100, true},
       }) {
    COLIBRI_RETURN_IF_ERROR(CheckRange(range));
  }
  std::vector<int32_t> ids;
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      return InvalidArgument(
          StrCat("logit_bias names token ", id, ", must be in [0, ", vocab_size, ")"));
    }
    COLIBRI_RETURN_IF_ERROR(
        CheckRange({StrCat("logit_bias of token ", id), bias, -100, 100, true}));
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    return InvalidArgument(StrCat("logit_bias names token ", *twice, " twice"));
  }
  return Status();
}

Sampler::Sampler(int32_t vocab_size)
    : adjusted_(vocab_size), candidates_(vocab_size), weights_(vocab_size), counts_(vocab_size) {
}

Result<int32_t> Sampler::Sample(const SamplingParams& params, std::span<const float> logits,
                                const TokenHistory& history) {
  COLIBRI_CHECK(logits.size() == adjusted_.size() && !logits.empty());
  logits = Adjust(params, logits, history);
  int32_t best = 0;
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    if (!(logits[id] <= std::numeric_limits<float>::max())) {
      return InvalidArgument(StrCat("the logit of token ", id, " is ", logits[id]));
    }
    if (logits[id] > logits[best]) best = id;
  }
  if (logits[best] == -std::numeric_limits<float>::infinity()) {
    return InvalidArgument("every token's logit is -infinity: there is none to choose");
  }
  if (params.temperature == 0) return best;
  return Draw(params, logits, logits[best], static_cast<int64_t>(history.tokens.size()));
}

std::span<const float> Sampler::Adjust(const SamplingParams& params, std::span<const float> logits,
                                       const TokenHistory& history) {
  const bool repetition = params.repetition_penalty != 1;
  const bool occurrence = params.presence_penalty != 0 || params.frequency_penalty != 0;
  if (!repetition && !occurrence && params.logit_bias.empty()) return logits;

  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  if (repetition) {
    for (const int32_t id : history.tokens) {
      if (counts_[id]++ > 0) continue;
      float& logit = adjusted_[id];
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
    for (const int32_t id : history.tokens) counts_[id] = 0;
  }
  if (occurrence) {
    const auto answer = history.tokens.subspan(history.n_prompt);
    for (const int32_t id : answer) ++counts_[id];
    for (const int32_t id : answer) {
      if (counts_[id] == 0) continue;
      adjusted_[id] -=
          params.presence_penalty + params.frequency_penalty * static_cast<float>(counts_[id]);
      counts_[id] = 0;
    }
  }
  for (const auto& [id, bias] : params.logit_bias) adjusted_[id] += bias;
  return adjusted_;
}

int32_t Sampler::Draw(const SamplingParams& params, std::span<const float> logits, float max,
                      int64_t position) {
  const auto begin = candidates_.begin();
  std::iota(begin, candidates_.end(), 0);
  auto end = candidates_.end();
  auto sorted_end = begin;  // of candidates_, what is in order of likelihood already
  const auto sort_next = [&](ptrdiff_t n) {
    const auto next = sorted_end + std::min(n, end - sorted_end);
    if (next != end) std::nth_element(sorted_end, next, end, MoreLikely{logits});
    std::sort(sorted_end, next, MoreLikely{logits});
    sorted_end = next;
  };

  if (params.top_k > 0 && params.top_k < end - begin) {
    sort_next(params.top_k);
    end = sorted_end;
  }
  // Sums run in the order of the candidates, which is the ids' or that of likelihood: both are the
  // same for the same logits, wherever they were computed.
  double sum = 0;
  for (auto it = begin; it != end; ++it) {
    weights_[*it] = std::exp((static_cast<double>(logits[*it]) - max) / params.temperature);
    sum += weights_[*it];
  }
  if (params.top_p < 1) {
    const double wanted = params.top_p * sum;
    sum = 0;
    auto it = begin;
    do {
      if (it == sorted_end) sort_next(std::max(kFirstSorted, 3 * (sorted_end - begin)));
      sum += weights_[*it++];
    } while (sum < wanted && it != end);
    end = it;
  }
  if (params.min_p > 0) {
    // The likeliest is still there, and its weight is 1.
    end = std::remove_if(begin, end, [&](int32_t id) { return weights_[id] < params.min_p; });
    sum = 0;
    for (auto it = begin; it != end; ++it) sum += weights_[*it];
  }

  const double drawn = UniformAt(params.seed, static_cast<uint64_t>(position)) * sum;
  double passed = 0;
  int32_t last = *begin;
  for (auto it = begin; it != end; ++it) {
    if (weights_[*it] == 0) continue;
    passed += weights_[*it];
    last = *it;
    if (drawn < passed) break;
  }
  return last;
}

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

double UniformAt(uint64_t seed, uint64_t position) {
  const auto random =
      Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (static_cast<uint64_t>(random[1]) << 32 | random[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace colibri
