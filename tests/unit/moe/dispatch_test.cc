#include "moe/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace colibri {
namespace {

TEST(DispatchPlan, SlotsAreOrderedByExpertThenToken) {
  DispatchPlan plan(4, 2, 4);
  const std::vector<int32_t> expert = {3, 1, 1, 0, 3, 1};  // three tokens, two choices each
  plan.Build(expert, 3, 2, 4);
  EXPECT_EQ(std::vector<int32_t>(plan.active_experts().begin(), plan.active_experts().end()),
            (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(plan.n_tokens(1), 3);
  EXPECT_EQ(plan.n_tokens(2), 0);
  EXPECT_EQ(plan.first_slot(3), 4);
  EXPECT_EQ(std::vector<int32_t>(plan.token_of_slot().begin(), plan.token_of_slot().end()),
            (std::vector<int32_t>{1, 0, 1, 2, 0, 2}));
  EXPECT_EQ(std::vector<int32_t>(plan.slot_of_choice().begin(), plan.slot_of_choice().end()),
            (std::vector<int32_t>{4, 1, 2, 0, 5, 3}));
}

TEST(DispatchPlan, EveryChoiceHasItsOwnSlotInEveryBatch) {
  std::mt19937 random(3);
  DispatchPlan plan(64, 8, 896);
  for (const int32_t n_tokens : {1, 2, 64, 33}) {
    std::vector<int32_t> expert(static_cast<size_t>(n_tokens) * 8);
    for (int32_t& e : expert) e = static_cast<int32_t>(random() % 896);
    plan.Build(expert, n_tokens, 8, 896);
    std::vector<bool> taken(expert.size());
    for (size_t i = 0; i < expert.size(); ++i) {
      const auto slot = static_cast<size_t>(plan.slot_of_choice()[i]);
      ASSERT_FALSE(taken[slot]);
      taken[slot] = true;
      ASSERT_EQ(plan.token_of_slot()[slot], static_cast<int32_t>(i / 8));
      ASSERT_GE(static_cast<int32_t>(slot), plan.first_slot(expert[i]));
      ASSERT_LT(static_cast<int32_t>(slot), plan.first_slot(expert[i]) + plan.n_tokens(expert[i]));
    }
  }
}

TEST(DispatchPlan, BlocksDoNotShow) {
  constexpr int32_t kTokens = 67, kChoices = 4, kExperts = 24;
  std::mt19937 random(5);
  std::vector<int32_t> expert(static_cast<size_t>(kTokens) * kChoices);
  for (int32_t& e : expert) e = static_cast<int32_t>(random() % kExperts);
  DispatchPlan whole(kTokens, kChoices, kExperts);
  whole.Build(expert, kTokens, kChoices, kExperts);
  const std::vector<int32_t> slots(whole.slot_of_choice().begin(), whole.slot_of_choice().end()),
      tokens(whole.token_of_slot().begin(), whole.token_of_slot().end());
  for (const int32_t block_tokens : {1, 2, 16, 66, 67, 100}) {
    DispatchPlan plan(kTokens, kChoices, kExperts, kTokens);
    plan.Begin(kTokens, kChoices, kExperts, block_tokens);
    ASSERT_EQ(plan.n_blocks(), (kTokens + block_tokens - 1) / block_tokens);
    // In any order: backwards here.
    for (int32_t b = plan.n_blocks(); b-- > 0;) plan.Count(b, expert);
    plan.Sum();
    for (int32_t b = plan.n_blocks(); b-- > 0;) plan.Scatter(b, expert);
    EXPECT_TRUE(std::equal(slots.begin(), slots.end(), plan.slot_of_choice().begin()));
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), plan.token_of_slot().begin()));
    EXPECT_TRUE(std::equal(plan.active_experts().begin(), plan.active_experts().end(),
                           whole.active_experts().begin(), whole.active_experts().end()));
    for (int32_t e = 0; e < kExperts; ++e) EXPECT_EQ(plan.n_tokens(e), whole.n_tokens(e));
  }
}

}  // namespace
}  // namespace colibri
