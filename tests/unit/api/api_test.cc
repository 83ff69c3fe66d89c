#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "colibri/colibri.h"
#include "colibri/engine.hpp"
#include "support/assets.h"

extern "C" int RunCProgram(const char* model_path);

namespace {

std::string NanoPath() {
  return colibri::testing::SourceDir() + "/models/nano/nano-q8_0.gguf";
}

colibri::api::Engine LoadNano() {
  colibri_engine_options options;
  colibri_engine_options_init(&options);
  options.n_threads = 1;
  options.max_context = 256;
  options.max_batch_tokens = 64;
  auto engine = colibri::api::Engine::Load(NanoPath(), &options);
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    std::abort();
  }
  return std::move(*engine);
}

// A message, and the freeing of it.
struct Message {
  ~Message() { colibri_free(text); }
  char* text = nullptr;
  std::string str() const { return text == nullptr ? "" : text; }
};

TEST(CApi, RunsAConversationFromC) {
  EXPECT_EQ(RunCProgram(NanoPath().c_str()), 0);
}

TEST(CApi, NullArgumentsAreRefusedByName) {
  Message m;
  colibri_engine* engine = nullptr;
  EXPECT_EQ(colibri_engine_load(nullptr, nullptr, &engine, &m.text), COLIBRI_INVALID_ARGUMENT);
  EXPECT_EQ(m.str(), "path must not be NULL");
  EXPECT_EQ(colibri_engine_load("x", nullptr, nullptr, nullptr), COLIBRI_INVALID_ARGUMENT);
  EXPECT_EQ(colibri_session_create(nullptr, 0, nullptr, nullptr), COLIBRI_INVALID_ARGUMENT);
  EXPECT_EQ(colibri_step(nullptr, nullptr, 0, nullptr, 0, nullptr), COLIBRI_INVALID_ARGUMENT);
  EXPECT_EQ(colibri_tokenize(nullptr, "", 0, 0, nullptr, nullptr, nullptr),
            COLIBRI_INVALID_ARGUMENT);
  colibri_engine_free(nullptr);
  colibri_session_free(nullptr);
  colibri_session_cancel(nullptr);
  colibri_free(nullptr);
  colibri_result_clear(nullptr);
}

TEST(CApi, OptionsOfOtherVersionsAreReadOrRefused) {
  auto engine = LoadNano();
  auto session = engine.NewSession(64);
  ASSERT_TRUE(session);
  colibri_session* raw = nullptr;
  ASSERT_EQ(colibri_session_create(engine.handle(), 64, &raw, nullptr), COLIBRI_OK);
  const std::vector<int32_t> prompt = {5, 6, 7};
  const auto generate = [&](const colibri_generate_options* options, Message& m) {
    return colibri_session_generate(raw, prompt.data(), prompt.size(), options, nullptr, &m.text);
  };

  struct Newer {
    colibri_generate_options known;
    uint64_t unknown;
  } newer{};
  colibri_generate_options_init(&newer.known);
  newer.known.max_new_tokens = 1;
  newer.known.struct_size = sizeof(newer);
  {
    Message m;
    EXPECT_EQ(generate(&newer.known, m), COLIBRI_OK) << m.str();
  }
  newer.unknown = 1;
  {
    Message m;
    EXPECT_EQ(generate(&newer.known, m), COLIBRI_UNSUPPORTED);
    EXPECT_NE(m.str().find("newer than this library"), std::string::npos);
  }
  // An older caller knows nothing beyond max_new_tokens.
  colibri_generate_options older;
  std::memset(&older, 0xff, sizeof(older));
  older.struct_size = offsetof(colibri_generate_options, temperature);
  older.max_new_tokens = 1;
  {
    Message m;
    EXPECT_EQ(generate(&older, m), COLIBRI_OK) << m.str();
  }
  colibri_generate_options unset{};
  {
    Message m;
    EXPECT_EQ(generate(&unset, m), COLIBRI_INVALID_ARGUMENT);
    EXPECT_NE(m.str().find("struct_size is 0"), std::string::npos);
  }
  colibri_session_free(raw);
}

TEST(CApi, AnActivationOrCacheTypeThatDoesNotExistIsRefused) {
  colibri_engine_options options;
  colibri_engine_options_init(&options);
  EXPECT_EQ(options.activations, COLIBRI_ACTIVATIONS_INT8);
  EXPECT_EQ(options.kv_type, COLIBRI_KV_F16);
  colibri_engine* engine = nullptr;
  for (int32_t* option : {&options.activations, &options.kv_type}) {
    const int32_t valid = *option;
    for (const int32_t value : {-1, 4}) {
      *option = value;
      Message m;
      EXPECT_EQ(colibri_engine_load("x", &options, &engine, &m.text), COLIBRI_INVALID_ARGUMENT);
      EXPECT_NE(m.str().find("is " + std::to_string(value) + ", must be in [0, "),
                std::string::npos);
    }
    *option = valid;
  }
}

TEST(CApi, AResultThatWasNotInitialisedIsRefused) {
  auto engine = LoadNano();
  colibri_session* session = nullptr;
  ASSERT_EQ(colibri_session_create(engine.handle(), 64, &session, nullptr), COLIBRI_OK);
  const int32_t prompt = 5;
  colibri_result result{};
  Message m;
  EXPECT_EQ(colibri_session_generate(session, &prompt, 1, nullptr, &result, &m.text),
            COLIBRI_INVALID_ARGUMENT);
  EXPECT_NE(m.str().find("colibri_result_init"), std::string::npos);
  EXPECT_EQ(result.text, nullptr);
  colibri_session_free(session);
}

TEST(CApi, OneCallAtATimeUsesAnEngine) {
  auto engine = LoadNano();
  auto session = engine.NewSession(64);
  ASSERT_TRUE(session);
  colibri_status inside = COLIBRI_OK, outside = COLIBRI_OK;
  colibri::api::GenerateOptions options;
  options.max_new_tokens = 1;
  options.on_delta = [&](std::string_view, int32_t) {
    int64_t sequence = 0;
    inside = colibri_sequence_create(engine.handle(), 8, &sequence, nullptr);
    EXPECT_TRUE(engine.Tokenize("text is free"));
    return true;
  };
  ASSERT_TRUE(session->Generate({5, 6}, options));
  int64_t sequence = 0;
  outside = colibri_sequence_create(engine.handle(), 8, &sequence, nullptr);
  EXPECT_EQ(inside, COLIBRI_BUSY);
  EXPECT_EQ(outside, COLIBRI_OK);
}

TEST(CApi, ASessionFreedByItsOwnCallbackEndsItsAnswer) {
  auto engine = LoadNano();
  colibri_session* session = nullptr;
  ASSERT_EQ(colibri_session_create(engine.handle(), 0, &session, nullptr), COLIBRI_OK);
  struct Seen {
    colibri_session* session;
    int n_calls = 0;
  } seen{session};
  colibri_generate_options options;
  colibri_generate_options_init(&options);
  options.max_new_tokens = 100;
  options.ignore_eos = 1;
  options.user = &seen;
  options.on_delta = [](void* user, const char*, size_t, int32_t) {
    auto* state = static_cast<Seen*>(user);
    if (state->n_calls++ == 0) colibri_session_free(state->session);
    return 1;
  };
  const int32_t prompt[] = {5, 6};
  EXPECT_EQ(colibri_session_generate(session, prompt, 2, &options, nullptr, nullptr), COLIBRI_OK);
  EXPECT_LT(seen.n_calls, 50);
  // Its pages are back: the whole context is free again.
  colibri_session* next = nullptr;
  EXPECT_EQ(colibri_session_create(engine.handle(), 0, &next, nullptr), COLIBRI_OK);
  colibri_session_free(next);
}

TEST(CApi, StepsReportEachItem) {
  auto engine = LoadNano();
  const auto vocab = static_cast<size_t>(engine.info().vocab_size);
  int64_t a = -1, b = -1;
  ASSERT_EQ(colibri_sequence_create(engine.handle(), 16, &a, nullptr), COLIBRI_OK);
  ASSERT_EQ(colibri_sequence_create(engine.handle(), 16, &b, nullptr), COLIBRI_OK);
  const std::vector<int32_t> good = {5, 6, 7}, bad = {5, static_cast<int32_t>(vocab)};
  std::vector<colibri_step_item> items(2);
  for (colibri_step_item& item : items) item.struct_size = sizeof(item);
  items[0].sequence = a;
  items[0].tokens = bad.data();
  items[0].n_tokens = bad.size();
  items[0].want = COLIBRI_WANT_ALL;
  items[1].sequence = b;
  items[1].tokens = good.data();
  items[1].n_tokens = good.size();
  items[1].want = COLIBRI_WANT_ALL;
  std::vector<float> logits(5 * vocab);
  Message m;
  ASSERT_EQ(colibri_step(engine.handle(), items.data(), 2, logits.data(), logits.size(), &m.text),
            COLIBRI_OK)
      << m.str();
  EXPECT_EQ(items[0].status, COLIBRI_INVALID_ARGUMENT);
  EXPECT_NE(std::string(items[0].message).find("must be in [0, 3072)"), std::string::npos);
  EXPECT_EQ(items[1].status, COLIBRI_OK);
  EXPECT_EQ(items[1].n_logits_rows, 3);
  EXPECT_STREQ(items[1].message, "");

  // The last row again, by cutting the last token off and computing it alone.
  ASSERT_EQ(colibri_sequence_truncate(engine.handle(), b, 2, nullptr), COLIBRI_OK);
  std::vector<float> last(vocab);
  items[1].tokens = good.data() + 2;
  items[1].n_tokens = 1;
  items[1].want = COLIBRI_WANT_LAST;
  ASSERT_EQ(colibri_step(engine.handle(), &items[1], 1, last.data(), last.size(), nullptr),
            COLIBRI_OK);
  EXPECT_EQ(std::memcmp(last.data(), logits.data() + 2 * vocab, vocab * sizeof(float)), 0);

  items[1].struct_size = 8;
  Message size;
  EXPECT_EQ(colibri_step(engine.handle(), &items[1], 1, last.data(), last.size(), &size.text),
            COLIBRI_INVALID_ARGUMENT);
  EXPECT_NE(size.str().find("items[0].struct_size is 8"), std::string::npos);
  EXPECT_EQ(colibri_sequence_release(engine.handle(), a, nullptr), COLIBRI_OK);
  EXPECT_EQ(colibri_sequence_release(engine.handle(), a, nullptr), COLIBRI_NOT_FOUND);
}

TEST(CApi, InfoFillsWhatTheCallerKnows) {
  auto engine = LoadNano();
  const colibri_engine_info info = engine.info();
  EXPECT_EQ(info.vocab_size, 3072);
  EXPECT_EQ(info.n_layers, 5);
  EXPECT_EQ(info.max_context, 256);
  EXPECT_EQ(info.has_tokenizer, 1);
  EXPECT_STREQ(info.family, "qwen3_moe");
  colibri_engine_info old;
  std::memset(&old, 0x5a, sizeof(old));
  old.struct_size = offsetof(colibri_engine_info, hidden);
  colibri_engine_get_info(engine.handle(), &old);
  EXPECT_EQ(old.vocab_size, 3072);
  EXPECT_EQ(old.hidden, 0x5a5a5a5a);
}

TEST(CppApi, SessionsOutliveTheEnginesHandle) {
  colibri::api::Expected<colibri::api::Session> session = [] {
    auto engine = LoadNano();
    return engine.NewSession(64);
  }();
  ASSERT_TRUE(session);
  colibri::api::GenerateOptions options;
  options.max_new_tokens = 2;
  options.ignore_eos = true;
  const auto answer = session->Generate({5, 6, 7}, options);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->tokens.size(), 2u);
  EXPECT_EQ(answer->finish, COLIBRI_FINISH_LENGTH);
}

TEST(CppApi, SamplingIsTheSameForTheSameSeed) {
  auto engine = LoadNano();
  const auto run = [&](uint64_t seed) {
    auto session = engine.NewSession(64);
    colibri::api::GenerateOptions options;
    options.max_new_tokens = 20;
    options.temperature = 2;
    options.seed = seed;
    options.ignore_eos = true;
    return session->Generate({5, 6, 7}, options)->tokens;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(CppApi, CancelEndsAnAnswerAndErrorsCarryTheirMessage) {
  auto engine = LoadNano();
  auto session = engine.NewSession(64);
  ASSERT_TRUE(session);
  colibri::api::GenerateOptions options;
  options.ignore_eos = true;
  options.on_delta = [&](std::string_view, int32_t) {
    session->Cancel();
    return true;
  };
  const auto answer = session->Generate({5, 6, 7}, options);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->finish, COLIBRI_FINISH_CANCELLED);
  EXPECT_EQ(answer->tokens.size(), 1u);

  const auto refused = session->Generate(std::vector<int32_t>(64, 5), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, COLIBRI_INVALID_ARGUMENT);
  EXPECT_NE(refused.error().message.find("the prompt has 64 tokens, the context holds 64"),
            std::string::npos);
  EXPECT_FALSE(session->Generate({}, {}));
  EXPECT_FALSE(engine.NewSession(100000));
}

}  // namespace
