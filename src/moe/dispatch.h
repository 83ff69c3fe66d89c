// moe/dispatch.h - groups the tokens of a batch by expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colibri {

// The plan of one batch. A slot is one (token, choice); slots are ordered by expert and, within an
// expert, by token. Memory is taken once.
//
// Built in three steps, the first and the last by blocks of tokens that any threads may take: Count
// each block, Sum once, Scatter each block. The blocks do not show in the plan.
class DispatchPlan {
 public:
  // For batches of up to max_tokens tokens, in up to max_blocks blocks, with up to k choices among
  // up to n_experts experts.
  DispatchPlan(int32_t max_tokens, int32_t k, int32_t n_experts, int32_t max_blocks = 1);

  // Starts the plan of a batch whose blocks have block_tokens tokens each, the last one what is
  // left.
  void Begin(int32_t n_tokens, int32_t k, int32_t n_experts, int32_t block_tokens);
  int32_t n_blocks() const { return n_blocks_; }
  // How many of a block's tokens chose each expert. Blocks may be counted at the same time.
  //   expert  [n_tokens, k] of the whole batch, every value in [0, n_experts); read in this block
  void Count(int32_t block, std::span<const int32_t> expert);
  // Where each block's slots begin. Needs the counts of all blocks.
  void Sum();
  // Gives the choices of a block their slots. Needs Sum; blocks may be done at the same time.
  void Scatter(int32_t block, std::span<const int32_t> expert);

  // All of it for one block. Allocates nothing, as none of the steps does.
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
  // The choices of a block, from the first to behind the last.
  struct Range {
    int32_t begin, end;
  };
  Range ChoicesOf(int32_t block) const;
  int32_t* CursorsOf(int32_t block) {
    return cursor_.data() + static_cast<size_t>(block) * static_cast<size_t>(n_experts_);
  }

  std::vector<int32_t> offset_;          // [n_experts + 1]
  std::vector<int32_t> cursor_;          // [n_blocks, n_experts] counts, then the next free slots
  std::vector<int32_t> active_;          // [n_experts]
  std::vector<int32_t> token_of_slot_;   // [max_tokens * k]
  std::vector<int32_t> slot_of_choice_;  // [max_tokens * k]
  int32_t n_active_ = 0;
  int32_t n_slots_ = 0;
  int32_t k_ = 0;
  int32_t n_experts_ = 0;
  int32_t n_blocks_ = 0;
  int32_t block_choices_ = 0;
};

}  // namespace colibri
