// Counts what the steady state allocates: the only test program that replaces operator new.
// Not in a ThreadSanitizer build, whose runtime has its own operator new and lets no other in.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COLIBRI_OWNS_NO_NEW 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define COLIBRI_OWNS_NO_NEW 1
#endif

#ifndef COLIBRI_OWNS_NO_NEW

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "chain_model.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "support/assets.h"

namespace {
std::atomic<int64_t> allocations{0};

void* AllocateOrNull(size_t n_bytes, size_t alignment) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(n_bytes > 0 ? n_bytes : 1);
  return std::aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);
}

void* Allocate(size_t n_bytes, size_t alignment) {
  void* memory = AllocateOrNull(n_bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t n) {
  return Allocate(n, 0);
}
void* operator new[](size_t n) {
  return Allocate(n, 0);
}
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  return AllocateOrNull(n, 0);
}
void* operator new[](size_t n, const std::nothrow_t&) noexcept {
  return AllocateOrNull(n, 0);
}
void* operator new(size_t n, std::align_val_t a) {
  return Allocate(n, static_cast<size_t>(a));
}
void* operator new[](size_t n, std::align_val_t a) {
  return Allocate(n, static_cast<size_t>(a));
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace colibri {
namespace {

TEST(SteadyState, ACounterSeesAllocations) {
  const int64_t before = allocations.load();
  // Called by name: a compiler may leave out a new-expression whose object nobody looks at.
  ::operator delete(::operator new(1));
  EXPECT_EQ(allocations.load(), before + 1);
}

TEST(SteadyState, StepsAndDrawsAllocateNothing) {
  const auto engine = testing::LoadEngine(testing::SourceDir() + "/models/nano/nano-q8_0.gguf",
                                          {.n_threads = 2, .max_batch_tokens = 64});
  ASSERT_NE(engine, nullptr);
  constexpr size_t kSequences = 4;
  const auto vocab = static_cast<size_t>(engine->vocab_size());
  std::vector<float> logits(kSequences * vocab);
  std::vector<StepResult> results(kSequences);
  std::vector<StepItem> items(kSequences);
  std::vector<std::vector<int32_t>> tokens(kSequences);
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < kSequences; ++i) {
    auto sequence = engine->CreateSequence(200);
    ASSERT_TRUE(sequence.ok());
    ids.push_back(*sequence);
    tokens[i].reserve(200);
    for (size_t t = 0; t < 4 + i; ++t) tokens[i].push_back(static_cast<int32_t>(10 * i + t + 3));
  }
  Sampler sampler(engine->vocab_size());
  const SamplingParams params{.temperature = 1,
                              .top_k = 50,
                              .top_p = 0.9f,
                              .min_p = 0.01f,
                              .repetition_penalty = 1.1f,
                              .frequency_penalty = 0.1f,
                              .logit_bias = {{5, 1.0f}},
                              .seed = 3};
  std::vector<size_t> computed(kSequences, 0);
  const auto step = [&] {
    for (size_t i = 0; i < kSequences; ++i) {
      items[i] = {.sequence = ids[i], .tokens = std::span(tokens[i]).subspan(computed[i])};
      computed[i] = tokens[i].size();
    }
    bool ok = engine->Step(items, {.logits = logits, .results = results}).ok();
    for (size_t i = 0; i < kSequences; ++i) {
      const auto token =
          sampler.Sample(params, std::span(logits).subspan(i * vocab, vocab), {tokens[i], 4 + i});
      ok = ok && results[i].status.ok() && token.ok();
      tokens[i].push_back(token.ok() ? *token : 0);
    }
    return ok;
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step());
  const int64_t before = allocations.load();
  bool ok = true;
  for (int i = 0; i < 60; ++i) ok = step() && ok;
  EXPECT_EQ(allocations.load(), before);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace colibri

#endif  // COLIBRI_OWNS_NO_NEW
