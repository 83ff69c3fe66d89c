#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <thread>

#include "chain_model.h"
#include "engine/session.h"

namespace colibri {
namespace {

using testing::ChainModel;
using testing::ChainOptions;
using testing::kA;
using testing::kBang;
using testing::kChainContext;
using testing::kEmoji;
using testing::kImEnd;
using testing::kNewline;
using testing::kSpace;
using testing::LoadEngine;

GenerateRequest Ask(std::vector<int32_t> prompt, int32_t max_new_tokens = 0) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  return request;
}

GenerateResult RunOne(Engine& engine, GenerateRequest request) {
  std::vector<GenerateRequest> requests;
  requests.push_back(std::move(request));
  auto results = RunBatch(engine, std::move(requests));
  EXPECT_TRUE(results.ok()) << results.status().ToString();
  return results.ok() ? std::move((*results)[0]) : GenerateResult{};
}

// "abcde" and then, round and round, what `next` says.
struct Chain {
  explicit Chain(const ChainOptions& options, const EngineOptions& engine_options = {})
      : model(options), engine(LoadEngine(model.path(), engine_options)) {}
  ChainModel model;
  std::unique_ptr<Engine> engine;
};

TEST(Generate, EachOfThreeEndTokensEndsTheAnswer) {
  const std::vector<int32_t> ends = {50, 51, 52};
  for (const int32_t end : ends) {
    Chain chain({.next = {{kA + 2, end}}, .eos = "[50, 51, 52]"});
    ASSERT_NE(chain.engine, nullptr);
    const GenerateResult result = RunOne(*chain.engine, Ask({kA}, 10));
    EXPECT_EQ(result.finish, FinishReason::kStop);
    EXPECT_EQ(result.tokens, (std::vector<int32_t>{kA + 1, kA + 2, end}));
    EXPECT_EQ(result.text, "bc");
  }
}

TEST(Generate, EndTokensCanBeIgnoredAndOthersAdded) {
  Chain chain({.next = {{kA + 1, kImEnd}, {kImEnd, kA + 2}}, .eos = "2"});
  ASSERT_NE(chain.engine, nullptr);
  GenerateRequest request = Ask({kA}, 4);
  request.ignore_eos = true;
  GenerateResult result = RunOne(*chain.engine, request);
  EXPECT_EQ(result.finish, FinishReason::kLength);
  EXPECT_EQ(result.tokens, (std::vector<int32_t>{kA + 1, kImEnd, kA + 2, kA + 3}));
  EXPECT_EQ(result.text, "bcd");

  request.keep_special = true;
  EXPECT_EQ(RunOne(*chain.engine, request).text, "b<|im_end|>cd");

  request.stop_tokens = {kA + 2};
  result = RunOne(*chain.engine, request);
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_EQ(result.tokens.back(), kA + 2);
  EXPECT_EQ(result.text, "b<|im_end|>");
}

TEST(Generate, ACharacterOfFourTokensComesInOnePiece) {
  Chain chain({.next = {{kA, kEmoji}, {kEmoji + 3, kA + 1}, {kA + 2, kImEnd}}, .eos = "2"});
  ASSERT_NE(chain.engine, nullptr);
  std::vector<std::pair<int32_t, std::string>> deltas;
  GenerateRequest request = Ask({kA}, 20);
  request.on_delta = [&](const GenerateDelta& delta) {
    deltas.emplace_back(delta.token, delta.text);
    return true;
  };
  const GenerateResult result = RunOne(*chain.engine, request);
  EXPECT_EQ(result.text, "\U0001F99Cbc");
  const std::vector<std::pair<int32_t, std::string>> expected = {
      {kEmoji, ""},  {kEmoji + 1, ""}, {kEmoji + 2, ""}, {kEmoji + 3, "\U0001F99C"},
      {kA + 1, "b"}, {kA + 2, "c"},    {kImEnd, ""}};
  EXPECT_EQ(deltas, expected);
}

TEST(Generate, HalfACharacterAtTheEndReadsAsReplacement) {
  Chain chain({.next = {{kA, kEmoji}}, .eos = "2"});
  ASSERT_NE(chain.engine, nullptr);
  EXPECT_EQ(RunOne(*chain.engine, Ask({kA}, 3)).text, "\uFFFD");
}

TEST(Generate, StopStringsNeverShow) {
  // "bc d!" and on.
  Chain chain({.next = {{kA + 2, kSpace}, {kSpace, kA + 3}, {kA + 3, kBang}}, .eos = "2"});
  ASSERT_NE(chain.engine, nullptr);
  std::string shown;
  GenerateRequest request = Ask({kA}, 20);
  request.stop_strings = {"zz", "c d!"};
  request.on_delta = [&](const GenerateDelta& delta) {
    shown += delta.text;
    EXPECT_EQ(shown, "b");
    return true;
  };
  GenerateResult result = RunOne(*chain.engine, request);
  EXPECT_EQ(result.finish, FinishReason::kStopString);
  EXPECT_EQ(result.stop_string, "c d!");
  EXPECT_EQ(result.text, "b");
  EXPECT_EQ(result.tokens.size(), 5u);

  // Held back for a stop string that does not come, and shown at the end.
  request.on_delta = [&](const GenerateDelta& delta) {
    shown += delta.text;
    return true;
  };
  shown.clear();
  request.stop_strings = {"c d!?"};
  request.max_new_tokens = 5;
  result = RunOne(*chain.engine, request);
  EXPECT_EQ(result.finish, FinishReason::kLength);
  EXPECT_EQ(result.text, "bc d!");
  EXPECT_EQ(shown, result.text);
}

TEST(Generate, TheContextEndsAnAnswer) {
  Chain chain({.next = {{kA + 2, kA}}, .eos = "60"});
  ASSERT_NE(chain.engine, nullptr);
  for (const int32_t max_new : {0, 1000}) {
    const GenerateResult result = RunOne(*chain.engine, Ask({kA, kA + 1}, max_new));
    EXPECT_EQ(result.finish, FinishReason::kContext);
    EXPECT_EQ(result.tokens.size(), static_cast<size_t>(kChainContext - 2));
  }
  const GenerateResult exact = RunOne(*chain.engine, Ask({kA, kA + 1}, kChainContext - 2));
  EXPECT_EQ(exact.finish, FinishReason::kLength);
}

TEST(Generate, ARequestThatCannotRunSaysWhyAndTheOthersRun) {
  Chain chain({});
  ASSERT_NE(chain.engine, nullptr);
  std::vector<GenerateRequest> requests(8);
  requests[0] = Ask({kA}, 2);
  requests[1] = Ask(std::vector<int32_t>(kChainContext + 1, kA));
  requests[2] = Ask({});
  requests[3] = Ask({64});
  requests[4] = Ask({kA}, -1);
  requests[5] = Ask({kA});
  requests[5].sampling.top_p = 2;
  requests[6] = Ask({kA});
  requests[6].stop_strings = {"\xff"};
  requests[7] = Ask({kA});
  requests[7].stop_strings = {""};
  const std::vector<std::string> messages = {"",
                                             "the prompt has 97 tokens, the context holds 96",
                                             "the prompt has no tokens",
                                             "token 0 of the prompt has id 64, must be in [0, 64)",
                                             "max_new_tokens is -1",
                                             "top_p is 2",
                                             "stop string 0 is not valid UTF-8",
                                             "stop string 0 is empty"};
  const auto results = RunBatch(*chain.engine, std::move(requests));
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0].tokens, (std::vector<int32_t>{kA + 1, kA + 2}));
  for (size_t i = 1; i < messages.size(); ++i) {
    const GenerateResult& result = (*results)[i];
    EXPECT_EQ(result.finish, FinishReason::kError);
    EXPECT_EQ(result.status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(result.status.message().find(messages[i]), std::string::npos)
        << result.status.message();
  }
  EXPECT_EQ(chain.engine->kv_cache().n_free_pages(), chain.engine->kv_cache().n_pages());
}

TEST(Generate, AValueThatIsNotFiniteEndsThatAnswerAlone) {
  Chain chain({.next = {{kA + 2, testing::kNaN}}, .eos = "60"});
  ASSERT_NE(chain.engine, nullptr);
  const auto results = RunBatch(*chain.engine, {Ask({kA}, 8), Ask({kA + 5}, 8)});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0].finish, FinishReason::kError);
  EXPECT_NE((*results)[0].status.message().find("layer 0"), std::string::npos);
  EXPECT_EQ((*results)[0].tokens.size(), 3u);
  EXPECT_EQ((*results)[0].text, "bc");
  EXPECT_EQ((*results)[1].finish, FinishReason::kLength);
}

TEST(Scheduler, MoreRequestsThanPlacesAllCome) {
  Chain chain({.next = {}, .eos = "60"}, {.max_batch_tokens = 5, .max_sequences = 3});
  ASSERT_NE(chain.engine, nullptr);
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < 20; ++i) {
    std::vector<int32_t> prompt;
    for (int32_t t = 0; t <= i; ++t) prompt.push_back(kA + (i + t) % 20);
    requests.push_back(Ask(prompt, 1 + i % 7));
  }
  const auto copy = requests;
  const auto results = RunBatch(*chain.engine, std::move(requests));
  ASSERT_TRUE(results.ok()) << results.status().ToString();
  for (size_t i = 0; i < copy.size(); ++i) {
    const GenerateResult& result = (*results)[i];
    EXPECT_EQ(result.finish, FinishReason::kLength) << i << result.status.ToString();
    std::vector<int32_t> expected;
    for (int32_t t = 1; t <= copy[i].max_new_tokens; ++t) {
      expected.push_back(copy[i].prompt.back() + t);
    }
    EXPECT_EQ(result.tokens, expected) << i;
  }
  EXPECT_EQ(chain.engine->kv_cache().n_free_pages(), chain.engine->kv_cache().n_pages());
}

TEST(Scheduler, AStepSmallerThanTheRunningAnswersServesAllInTurn) {
  Chain chain({.next = {}, .eos = "60"}, {.max_batch_tokens = 2, .max_sequences = 5});
  ASSERT_NE(chain.engine, nullptr);
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < 5; ++i) requests.push_back(Ask({kA + i}, 10));
  const auto results = RunBatch(*chain.engine, std::move(requests));
  ASSERT_TRUE(results.ok());
  for (int32_t i = 0; i < 5; ++i) {
    ASSERT_EQ((*results)[static_cast<size_t>(i)].tokens.size(), 10u);
    EXPECT_EQ((*results)[static_cast<size_t>(i)].tokens.back(), kA + i + 10);
  }
}

TEST(Scheduler, PromptsAreComputedInChunksBesideTheDecodes) {
  Chain chain({.next = {{kA + 3, kA}}, .eos = "60"}, {.max_batch_tokens = 16, .max_sequences = 2});
  ASSERT_NE(chain.engine, nullptr);
  auto scheduler = Scheduler::Create(*chain.engine, {.prefill_chunk = 4});
  ASSERT_TRUE(scheduler.ok());
  int n_deltas = 0, deltas_during_prefill = 0;
  GenerateRequest decoding = Ask({kA}, 30);
  decoding.on_delta = [&](const GenerateDelta&) {
    ++n_deltas;
    return true;
  };
  GenerateRequest prefilling = Ask(std::vector<int32_t>(18, kA), 1);
  std::vector<int32_t> progress;
  prefilling.on_prefill = [&](int32_t done, int32_t total) {
    EXPECT_EQ(total, 18);
    progress.push_back(done);
    deltas_during_prefill = n_deltas;
  };
  ASSERT_TRUE((*scheduler)->Submit(std::move(decoding)).ok());
  ASSERT_TRUE((*scheduler)->Step().ok());
  const auto second = (*scheduler)->Submit(std::move(prefilling));
  ASSERT_TRUE(second.ok());
  while (!(*scheduler)->Done(*second)) ASSERT_TRUE((*scheduler)->Step().ok());
  EXPECT_EQ(progress, (std::vector<int32_t>{4, 8, 12, 16, 18}));
  EXPECT_EQ(deltas_during_prefill, 6);
  EXPECT_EQ((*scheduler)->n_running(), 1);
}

TEST(Scheduler, ACancelledRequestEndsWithinAStepAndTheOthersGoOn) {
  Chain chain({.next = {{kA + 3, kA}}, .eos = "60"}, {.max_batch_tokens = 4});
  ASSERT_NE(chain.engine, nullptr);
  auto scheduler = Scheduler::Create(*chain.engine, {});
  ASSERT_TRUE(scheduler.ok());
  std::atomic<bool> cancel{false};
  GenerateRequest flagged = Ask(std::vector<int32_t>(40, kA), 5);
  flagged.cancel = &cancel;
  const auto a = (*scheduler)->Submit(std::move(flagged));
  const auto b = (*scheduler)->Submit(Ask({kA}, 8));
  const auto c = (*scheduler)->Submit(Ask({kA}, 8));
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  ASSERT_TRUE((*scheduler)->Step().ok());
  EXPECT_FALSE((*scheduler)->Done(*a));
  cancel = true;
  ASSERT_TRUE((*scheduler)->Step().ok());
  ASSERT_TRUE((*scheduler)->Done(*a));
  EXPECT_EQ((*scheduler)->TakeResult(*a).finish, FinishReason::kCancelled);
  (*scheduler)->Cancel(*b);
  ASSERT_TRUE((*scheduler)->Done(*b));
  while (!(*scheduler)->Done(*c)) ASSERT_TRUE((*scheduler)->Step().ok());
  EXPECT_EQ((*scheduler)->TakeResult(*c).tokens.size(), 8u);
  EXPECT_EQ(chain.engine->kv_cache().n_free_pages(), chain.engine->kv_cache().n_pages());
}

TEST(Scheduler, ACallbackCanCancelAndIsNotCalledAgain) {
  Chain chain({.next = {{kA + 3, kA}}, .eos = "60"});
  ASSERT_NE(chain.engine, nullptr);
  int calls = 0;
  GenerateRequest request = Ask({kA}, 50);
  request.stop_strings = {"dz"};
  request.on_delta = [&](const GenerateDelta&) { return ++calls < 3; };
  const GenerateResult result = RunOne(*chain.engine, request);
  EXPECT_EQ(result.finish, FinishReason::kCancelled);
  EXPECT_EQ(result.tokens.size(), 3u);
  EXPECT_EQ(result.text, "bc");
  EXPECT_EQ(calls, 3);
}

TEST(Scheduler, ARequestLargerThanTheCacheIsRefusedAtOnce) {
  const uint64_t page_bytes = 32 * 2 * 2 * 32 * sizeof(float);
  Chain chain({}, {.kv_cache_bytes = 2 * page_bytes});
  ASSERT_NE(chain.engine, nullptr);
  auto scheduler = Scheduler::Create(*chain.engine, {});
  ASSERT_TRUE(scheduler.ok());
  const auto refused = (*scheduler)->Submit(Ask(std::vector<int32_t>(64, kA), 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("64"), std::string::npos);
}

TEST(Session, ComputesOnlyWhatItsCacheLacks) {
  Chain chain({.next = {{kA + 5, kImEnd}, {kImEnd, kNewline}}, .eos = "2"});
  ASSERT_NE(chain.engine, nullptr);
  auto session = Session::Create(*chain.engine, {});
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  auto first = (*session)->Generate(Ask({kSpace, kA + 2}));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->n_cached, 0);
  EXPECT_EQ(first->text, "def");
  EXPECT_EQ(first->finish, FinishReason::kStop);
  // The end token was drawn, but not computed.
  const std::vector<int32_t> cached = {kSpace, kA + 2, kA + 3, kA + 4, kA + 5};
  EXPECT_EQ(std::vector<int32_t>((*session)->tokens().begin(), (*session)->tokens().end()), cached);

  std::vector<int32_t> prompt = cached;
  prompt.insert(prompt.end(), {kImEnd, kNewline, kA + 4});
  auto second = (*session)->Generate(Ask(prompt));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->n_cached, 5);
  EXPECT_EQ(second->text, "f");

  // A changed history is computed from where it differs; the same prompt again from its last token.
  prompt[3] = kBang;
  EXPECT_EQ((*session)->Generate(Ask(prompt))->n_cached, 3);
  EXPECT_EQ((*session)->Generate(Ask(prompt))->n_cached, 7);
  (*session)->Reset();
  EXPECT_TRUE((*session)->tokens().empty());
  EXPECT_EQ((*session)->Generate(Ask(prompt))->n_cached, 0);
}

TEST(Session, StaysUsableAfterACancelAndARefusal) {
  Chain chain({.next = {{kA + 3, kA}}, .eos = "60"}, {.max_batch_tokens = 4});
  ASSERT_NE(chain.engine, nullptr);
  auto session = Session::Create(*chain.engine, {.max_tokens = 40});
  ASSERT_TRUE(session.ok());
  EXPECT_EQ((*session)->max_tokens(), 40);
  std::atomic<bool> cancel{true};
  GenerateRequest request = Ask(std::vector<int32_t>(10, kA), 5);
  request.cancel = &cancel;
  auto cancelled = (*session)->Generate(request);
  ASSERT_TRUE(cancelled.ok());
  EXPECT_EQ(cancelled->finish, FinishReason::kCancelled);
  cancel = false;
  int chunks = 0;
  request.on_prefill = [&](int32_t, int32_t) { cancel = ++chunks == 2; };
  cancelled = (*session)->Generate(request);
  ASSERT_TRUE(cancelled.ok());
  EXPECT_EQ(cancelled->finish, FinishReason::kCancelled);
  EXPECT_EQ((*session)->tokens().size(), 8u);

  const auto refused = (*session)->Generate(Ask(std::vector<int32_t>(40, kA)));
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("the prompt has 40 tokens, the context holds 40"),
            std::string::npos);

  const auto answer = (*session)->Generate(Ask(std::vector<int32_t>(10, kA), 5));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->n_cached, 8);
  EXPECT_EQ(answer->tokens, (std::vector<int32_t>{kA + 1, kA + 2, kA + 3, kA, kA + 1}));
}

TEST(Session, IsCancelledFromAnotherThread) {
  Chain chain({.next = {{kA + 3, kA}}, .eos = "60"});
  ASSERT_NE(chain.engine, nullptr);
  auto session = Session::Create(*chain.engine, {});
  ASSERT_TRUE(session.ok());
  std::atomic<bool> cancel{false}, started{false};
  GenerateRequest request = Ask({kA}, 0);
  request.cancel = &cancel;
  // The answer waits for the other thread, so that it can't be over before.
  request.on_delta = [&](const GenerateDelta&) {
    started = true;
    while (!cancel) std::this_thread::yield();
    return true;
  };
  std::thread other([&] {
    while (!started) std::this_thread::yield();
    cancel = true;
  });
  const auto result = (*session)->Generate(request);
  other.join();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish, FinishReason::kCancelled);
  EXPECT_EQ(result->tokens.size(), 1u);
}

TEST(Session, GivesItsPagesBack) {
  Chain chain({});
  ASSERT_NE(chain.engine, nullptr);
  const int32_t before = chain.engine->kv_cache().n_free_pages();
  for (int i = 0; i < 3; ++i) {
    auto session = Session::Create(*chain.engine, {});
    ASSERT_TRUE(session.ok());
    EXPECT_EQ(chain.engine->kv_cache().n_free_pages(), before - 3);
  }
  EXPECT_EQ(chain.engine->kv_cache().n_free_pages(), before);
}

}  // namespace
}  // namespace colibri
