#include "moe/dispatch.h"

#include <algorithm>

#include "base/check.h"

namespace colibri {

DispatchPlan::DispatchPlan(int32_t max_tokens, int32_t k, int32_t n_experts)
    : offset_(static_cast<size_t>(n_experts) + 1),
      cursor_(static_cast<size_t>(n_experts)),
      active_(static_cast<size_t>(n_experts)),
      token_of_slot_(static_cast<size_t>(max_tokens) * static_cast<size_t>(k)),
      slot_of_choice_(static_cast<size_t>(max_tokens) * static_cast<size_t>(k)) {
}

void DispatchPlan::Build(std::span<const int32_t> expert, int32_t n_tokens, int32_t k,
                         int32_t n_experts) {
  n_slots_ = n_tokens * k;
  COLIBRI_CHECK(static_cast<size_t>(n_slots_) <= token_of_slot_.size() &&
                static_cast<size_t>(n_experts) < offset_.size() &&
                static_cast<size_t>(n_slots_) <= expert.size());
  std::fill_n(offset_.begin(), n_experts + 1, 0);
  for (int32_t i = 0; i < n_slots_; ++i)
    ++offset_[static_cast<size_t>(expert[static_cast<size_t>(i)]) + 1];
  n_active_ = 0;
  for (int32_t e = 0; e < n_experts; ++e) {
    const auto at = static_cast<size_t>(e);
    if (offset_[at + 1] > 0) active_[static_cast<size_t>(n_active_++)] = e;
    offset_[at + 1] += offset_[at];
    cursor_[at] = offset_[at];
  }
  for (int32_t i = 0; i < n_slots_; ++i) {
    const int32_t slot = cursor_[static_cast<size_t>(expert[static_cast<size_t>(i)])]++;
    token_of_slot_[static_cast<size_t>(slot)] = i / k;
    slot_of_choice_[static_cast<size_t>(i)] = slot;
  }
}

}  // namespace colibri
