#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <set>

namespace colibri {
namespace {

KvLayout MakeLayout(uint64_t recurrent_floats = 0) {
  KvLayout layout;
  layout.page_bytes = kPageTokens * 32;
  layout.recurrent_floats = recurrent_floats;
  return layout;
}

TEST(KvCache, GivesEachPageToOneSequence) {
  auto cache = KvCache::Create(MakeLayout(), 10, 4);
  ASSERT_TRUE(cache.ok());
  auto a = cache->Reserve(3 * kPageTokens);
  auto b = cache->Reserve(3 * kPageTokens + 1);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->pages.size(), 3u);
  EXPECT_EQ(b->pages.size(), 4u);
  EXPECT_EQ(cache->n_free_pages(), 3);
  std::set<int32_t> pages(a->pages.begin(), a->pages.end());
  pages.insert(b->pages.begin(), b->pages.end());
  EXPECT_EQ(pages.size(), 7u);
  EXPECT_NE(a->slot, b->slot);

  cache->Release(*a);
  EXPECT_TRUE(a->pages.empty());
  EXPECT_EQ(cache->n_free_pages(), 6);
  EXPECT_TRUE(cache->Reserve(6 * kPageTokens).ok());
  EXPECT_EQ(cache->n_free_pages(), 0);
}

TEST(KvCache, RefusesWithTheNumbersAndTakesNothing) {
  auto cache = KvCache::Create(MakeLayout(), 4, 2);
  ASSERT_TRUE(cache.ok());
  auto a = cache->Reserve(kPageTokens);
  ASSERT_TRUE(a.ok());
  const auto refused = cache->Reserve(4 * kPageTokens);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(
      refused.status().message().find("128 positions need 4 pages (4.00 KiB), 3 of 4 are free"),
      std::string::npos)
      << refused.status().message();
  EXPECT_EQ(cache->n_free_pages(), 3);

  ASSERT_TRUE(cache->Reserve(1).ok());
  const auto no_slot = cache->Reserve(1);
  ASSERT_FALSE(no_slot.ok());
  EXPECT_NE(no_slot.status().message().find("all 2 sequences are taken"), std::string::npos);
  EXPECT_EQ(cache->n_free_pages(), 2);
}

TEST(KvCache, StoresWhatTheForwardPassWrites) {
  auto cache = KvCache::Create(MakeLayout(), 3, 1);
  ASSERT_TRUE(cache.ok());
  const KvStorage storage = cache->storage();
  EXPECT_EQ(storage.n_pages, 3);
  EXPECT_EQ(storage.n_slots, 0);
  EXPECT_EQ(storage.layout->page_bytes, kPageTokens * 32u);
  for (uint64_t i = 0; i < 3 * kPageTokens * 32; ++i) storage.pages[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(storage.pages[3 * kPageTokens * 32 - 1],
            static_cast<uint8_t>(3 * kPageTokens * 32 - 1));
}

TEST(KvCache, RecurrentStateIsClearedSavedAndRestored) {
  auto cache = KvCache::Create(MakeLayout(5), 3, 2);
  ASSERT_TRUE(cache.ok());
  auto a = cache->Reserve(1);
  auto b = cache->Reserve(1);
  ASSERT_TRUE(a.ok() && b.ok());
  const KvStorage storage = cache->storage();
  ASSERT_EQ(storage.n_slots, 2);
  for (int i = 0; i < 10; ++i) storage.recurrent[i] = static_cast<float>(i + 1);
  std::vector<float> saved(5), now(5);
  cache->SnapshotRecurrent(*b, saved);
  cache->ClearRecurrent(*b);
  cache->SnapshotRecurrent(*b, now);
  EXPECT_EQ(now, std::vector<float>(5, 0.0f));
  cache->RestoreRecurrent(*b, saved);
  cache->SnapshotRecurrent(*b, now);
  EXPECT_EQ(now, saved);
  cache->SnapshotRecurrent(*a, now);
  EXPECT_NE(now, saved);
}

TEST(KvCache, TakesNoMemoryThatSizesCannotExpress) {
  KvLayout layout = MakeLayout();
  layout.page_bytes = uint64_t{1} << 62;
  const auto cache = KvCache::Create(layout, 1000, 1);
  ASSERT_FALSE(cache.ok());
  EXPECT_EQ(cache.status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace colibri
