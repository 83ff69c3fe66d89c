#include "moe/dispatch.h"

#include <algorithm>

#include "base/check.h"

namespace colibri {

DispatchPlan::DispatchPlan(int32_t max_tokens, int32_t k, int32_t n_experts, int32_t max_blocks)
    : offset_(static_cast<size_t>(n_experts) + 1),
      cursor_(static_cast<size_t>(n_experts) * static_cast<size_t>(max_blocks)),
      active_(static_cast<size_t>(n_experts)),
      token_of_slot_(static_cast<size_t>(max_tokens) * static_cast<size_t>(k)),
      slot_of_choice_(static_cast<size_t>(max_tokens) * static_cast<size_t>(k)) {
}

void DispatchPlan::Begin(int32_t n_tokens, int32_t k, int32_t n_experts, int32_t block_tokens) {
  COLIBRI_CHECK(n_tokens > 0 && k > 0 && n_experts > 0 && block_tokens > 0);
  n_slots_ = n_tokens * k;
  k_ = k;
  n_experts_ = n_experts;
  n_blocks_ = (n_tokens + block_tokens - 1) / block_tokens;
  block_choices_ = block_tokens * k;
  COLIBRI_CHECK(static_cast<size_t>(n_slots_) <= token_of_slot_.size() &&
                static_cast<size_t>(n_experts) < offset_.size() &&
                static_cast<size_t>(n_blocks_) * static_cast<size_t>(n_experts) <= cursor_.size());
}

DispatchPlan::Range DispatchPlan::ChoicesOf(int32_t block) const {
  const int32_t begin = block * block_choices_;
  return {begin, std::min(begin + block_choices_, n_slots_)};
}

void DispatchPlan::Count(int32_t block, std::span<const int32_t> expert) {
  COLIBRI_CHECK(static_cast<size_t>(n_slots_) <= expert.size());
  int32_t* const count = CursorsOf(block);
  std::fill_n(count, n_experts_, 0);
  const Range choices = ChoicesOf(block);
  for (int32_t i = choices.begin; i < choices.end; ++i) ++count[expert[static_cast<size_t>(i)]];
}

void DispatchPlan::Sum() {
  n_active_ = 0;
  int32_t next = 0;
  for (int32_t e = 0; e < n_experts_; ++e) {
    const int32_t first = next;
    offset_[static_cast<size_t>(e)] = first;
    // Within an expert the earlier block's slots stand first, so that slots are in token order.
    for (int32_t b = 0; b < n_blocks_; ++b) {
      int32_t& cursor = CursorsOf(b)[e];
      const int32_t count = cursor;
      cursor = next;
      next += count;
    }
    if (next > first) active_[static_cast<size_t>(n_active_++)] = e;
  }
  offset_[static_cast<size_t>(n_experts_)] = next;
}

void DispatchPlan::Scatter(int32_t block, std::span<const int32_t> expert) {
  int32_t* const cursor = CursorsOf(block);
  const Range choices = ChoicesOf(block);
  for (int32_t i = choices.begin; i < choices.end; ++i) {
    const int32_t slot = cursor[expert[static_cast<size_t>(i)]]++;
    token_of_slot_[static_cast<size_t>(slot)] = i / k_;
    slot_of_choice_[static_cast<size_t>(i)] = slot;
  }
}

void DispatchPlan::Build(std::span<const int32_t> expert, int32_t n_tokens, int32_t k,
                         int32_t n_experts) {
  Begin(n_tokens, k, n_experts, n_tokens);
  Count(0, expert);
  Sum();
  Scatter(0, expert);
}

}  // namespace colibri
