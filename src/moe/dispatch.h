// moe/dispatch.h - groups the tokens of a batch by expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colibri {

// The plan of one batch. A slot is one (token, choice); slots are ordered by expert and, within an
// expert, by token. Memory is taken once.
class DispatchPlan {
 public:
  // For batches of up to max_tokens tokens with up to k choices among up to n_experts experts.
  DispatchPlan(int32_t max_tokens, int32_t k, int32_t n_experts);

  // Counts and orders by one pass over the choices. Allocates nothing.
  //   expert  [n_tokens, k], every value in [0, n_experts)
  void Build(std::span<const int32_t> expert, int32_t n_tokens, int32_t k, int32_t n_experts);

  // Experts that have tokens, ascending.
  std::span<const int32_t> active_experts() const {
    return {active_.data(), static_cast<size_t>(n_active_)};
  }
  int32_t first_slot(int32_t expert) const { return offset_[static_cast<size_t>(expert)]; }
  int32_t n_tokens(int32_t expert) const {
    return offset_[static_cast<size_t>(expert) + 1] - offset_[static_cast<size_t>(expert)];
  }
  // The token of each slot.
  std::span<const int32_t> token_of_slot() const {
    return {token_of_slot_.data(), static_cast<size_t>(n_slots_)};
  }
  // Where choice j of token t went: slot_of_choice()[t * k + j].
  std::span<const int32_t> slot_of_choice() const {
    return {slot_of_choice_.data(), static_cast<size_t>(n_slots_)};
  }

 private:
  std::vector<int32_t> offset_;          // [n_experts + 1]
  std::vector<int32_t> cursor_;          // [n_experts]
  std::vector<int32_t> active_;          // [n_experts]
  std::vector<int32_t> token_of_slot_;   // [max_tokens * k]
  std::vector<int32_t> slot_of_choice_;  // [max_tokens * k]
  int32_t n_active_ = 0;
  int32_t n_slots_ = 0;
};

}  // namespace colibri
