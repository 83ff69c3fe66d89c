#include "moe/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/strings.h"

namespace colibri {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The k largest of values[0, n) in decreasing order, ties to the lower index. Keeps a sorted list
// of k and walks the values once.
void SelectLargest(const float* values, int32_t n, int32_t k, int32_t* selected) {
  int32_t held = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (held == k && !(values[i] > values[selected[k - 1]])) continue;
    int32_t at = held < k ? held++ : k - 1;
    while (at > 0 && values[i] > values[selected[at - 1]]) {
      selected[at] = selected[at - 1];
      --at;
    }
    selected[at] = i;
  }
}

void Softmax(const float* logits, int32_t n, float* out) {
  float max = kMinusInfinity;
  for (int32_t i = 0; i < n; ++i) max = std::max(max, logits[i]);
  float sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    out[i] = std::exp(logits[i] - max);
    sum += out[i];
  }
  for (int32_t i = 0; i < n; ++i) out[i] /= sum;
}

void ComputeScores(const RouterSpec& spec, const float* logits, float* scores) {
  const int32_t n = spec.n_experts;
  switch (spec.score) {
    case RouterScore::kSoftmax:
      Softmax(logits, n, scores);
      return;
    case RouterScore::kSigmoid:
      for (int32_t i = 0; i < n; ++i) scores[i] = 1.0f / (1.0f + std::exp(-logits[i]));
      return;
    case RouterScore::kSqrtSoftplus:
      // log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)) does not overflow.
      for (int32_t i = 0; i < n; ++i) {
        scores[i] =
            std::sqrt(std::max(logits[i], 0.0f) + std::log1p(std::exp(-std::fabs(logits[i]))));
      }
      return;
    case RouterScore::kLogit:
    case RouterScore::kSparseMixer:
      std::copy(logits, logits + n, scores);
      return;
  }
}

float ScoreGroup(GroupScore kind, const float* choice, int32_t size) {
  float best = kMinusInfinity, second = kMinusInfinity;
  for (int32_t i = 0; i < size; ++i) {
    if (choice[i] > best) {
      second = best;
      best = choice[i];
    } else if (choice[i] > second) {
      second = choice[i];
    }
  }
  return kind == GroupScore::kMax || size < 2 ? best : best + second;
}

// Takes the experts of all but the best groups out of the choice.
void MaskGroups(const RouterSpec& spec, float* choice) {
  const int32_t size = spec.n_experts / spec.n_groups;
  // A group stays when fewer than n_selected_groups others are ahead of it; groups are few, so
  // compare each with each. The scores are computed from the untouched choice first: masking a
  // group must not change another's standing.
  constexpr int32_t kMaxGroups = 256;
  float group_scores[kMaxGroups];
  for (int32_t g = 0; g < spec.n_groups; ++g) {
    group_scores[g] = ScoreGroup(spec.group_score, choice + static_cast<ptrdiff_t>(g) * size, size);
  }
  for (int32_t g = 0; g < spec.n_groups; ++g) {
    int32_t ahead = 0;
    for (int32_t other = 0; other < spec.n_groups; ++other) {
      if (group_scores[other] > group_scores[g] ||
          (group_scores[other] == group_scores[g] && other < g))
        ++ahead;
    }
    if (ahead < spec.n_selected_groups) continue;
    std::fill_n(choice + static_cast<ptrdiff_t>(g) * size, size, kMinusInfinity);
  }
}

// Phi-3.5-MoE's sparse mixer at inference: k rounds; each takes the largest remaining logit, and
// its weight is its softmax among the remaining logits that lie within a relative margin of it.
void RouteSparseMixer(const RouterSpec& spec, const float* logits, float* remaining,
                      int32_t* expert, float* weight) {
  const int32_t n = spec.n_experts;
  const float margin = 2.0f * spec.sparse_mixer_jitter;
  std::copy(logits, logits + n, remaining);
  for (int32_t round = 0; round < spec.n_selected; ++round) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; ++i) {
      if (remaining[i] > remaining[best]) best = i;
    }
    const float max = remaining[best];
    float sum = 0;
    for (int32_t i = 0; i < n; ++i) {
      const float factor = std::max(std::fabs(logits[i]), max);
      const bool outside = (max - logits[i]) / factor > margin;
      if (!outside) sum += std::exp(remaining[i] - max);
    }
    expert[round] = best;
    weight[round] = 1.0f / sum;
    remaining[best] = kMinusInfinity;
  }
}

// For a token that can't be routed: experts that exist, at no weight.
bool TakeFirstExperts(int32_t k, int32_t* expert, float* weight) {
  for (int32_t j = 0; j < k; ++j) {
    expert[j] = j;
    weight[j] = 0;
  }
  return false;
}

}  // namespace

Status ValidateRouterSpec(const RouterSpec& spec) {
  if (spec.n_experts < 1)
    return InvalidArgument(StrCat("a router needs at least one expert, has ", spec.n_experts));
  if (spec.n_selected < 1 || spec.n_selected > spec.n_experts) {
    return InvalidArgument(StrCat("experts per token must be between 1 and the number of experts (",
                                  spec.n_experts, "), is ", spec.n_selected));
  }
  if (spec.n_groups < 1 || spec.n_groups > 256 || spec.n_experts % spec.n_groups != 0) {
    return InvalidArgument(StrCat("expert groups must divide the ", spec.n_experts,
                                  " experts (at most 256 groups), are ", spec.n_groups));
  }
  if (spec.n_selected_groups < 1 || spec.n_selected_groups > spec.n_groups) {
    return InvalidArgument(StrCat("selected expert groups must be between 1 and ", spec.n_groups,
                                  ", are ", spec.n_selected_groups));
  }
  if (spec.n_selected > spec.n_experts / spec.n_groups * spec.n_selected_groups) {
    return InvalidArgument(StrCat(spec.n_selected, " experts per token do not fit into ",
                                  spec.n_selected_groups, " groups of ",
                                  spec.n_experts / spec.n_groups));
  }
  if (!std::isfinite(spec.scale) || !std::isfinite(spec.renormalize_epsilon) ||
      !std::isfinite(spec.renormalize_floor)) {
    return InvalidArgument("router scale, epsilon and floor must be finite");
  }
  return Status();
}

bool RouteToken(const RouterSpec& spec, const float* logits, const float* selection_bias,
                float* scratch, int32_t* expert, float* weight) {
  const int32_t n = spec.n_experts, k = spec.n_selected;
  bool usable = true;
  for (int32_t i = 0; i < n; ++i)
    usable &= logits[i] < std::numeric_limits<float>::infinity();  // false for NaN too
  if (!usable) return TakeFirstExperts(k, expert, weight);
  if (spec.score == RouterScore::kSparseMixer) {
    RouteSparseMixer(spec, logits, scratch, expert, weight);
  } else {
    float* scores = scratch;
    float* choice = scratch + n;
    ComputeScores(spec, logits, scores);
    for (int32_t i = 0; i < n; ++i) {
      choice[i] = selection_bias != nullptr ? scores[i] + selection_bias[i] : scores[i];
      usable &= !std::isnan(choice[i]);
    }
    if (!usable) return TakeFirstExperts(k, expert, weight);
    if (spec.n_groups > 1 && spec.n_selected_groups < spec.n_groups) MaskGroups(spec, choice);
    SelectLargest(choice, n, k, expert);
    for (int32_t j = 0; j < k; ++j) weight[j] = scores[expert[j]];
    if (spec.softmax_selected) Softmax(weight, k, weight);
  }
  if (spec.renormalize) {
    float sum = 0;
    for (int32_t j = 0; j < k; ++j) sum += weight[j];
    sum = std::max(sum + spec.renormalize_epsilon, spec.renormalize_floor);
    for (int32_t j = 0; j < k; ++j) weight[j] = sum > 0 ? weight[j] / sum : 0.0f;
  }
  for (int32_t j = 0; j < k; ++j) weight[j] *= spec.scale;
  return true;
}

Status Route(const RouterSpec& spec, std::span<const float> logits,
             std::span<const float> selection_bias, std::span<float> scratch, RoutingView out) {
  COLIBRI_RETURN_IF_ERROR(ValidateRouterSpec(spec));
  const size_t n = static_cast<size_t>(spec.n_experts), k = static_cast<size_t>(spec.n_selected);
  if (logits.size() % n != 0)
    return InvalidArgument(StrCat(logits.size(), " router logits are no whole rows of ", n));
  const size_t n_tokens = logits.size() / n;
  if (out.expert.size() != n_tokens * k || out.weight.size() != n_tokens * k) {
    return InvalidArgument(StrCat("routing of ", n_tokens, " tokens needs room for ", n_tokens * k,
                                  " experts and weights"));
  }
  if (!selection_bias.empty() && selection_bias.size() != n)
    return InvalidArgument(StrCat("the selection bias must have ", n, " elements"));
  if (scratch.size() < RouterScratchFloats(spec))
    return InvalidArgument("the router's scratch is too small");
  for (size_t t = 0; t < n_tokens; ++t) {
    if (!RouteToken(spec, &logits[t * n], selection_bias.empty() ? nullptr : selection_bias.data(),
                    scratch.data(), &out.expert[t * k], &out.weight[t * k])) {
      return InvalidArgument(StrCat("token ", t, " has a router logit that is not finite"));
    }
  }
  return Status();
}

}  // namespace colibri
