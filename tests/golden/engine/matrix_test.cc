// Guarantee 1: batching, chunks, threads, order and cached prefixes decide speed, never a bit of a
// sequence's logits.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <ostream>

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/session.h"
#include "support/assets.h"

namespace colibri {
namespace {

constexpr int32_t kNewTokens = 10;
constexpr int32_t kMaxBatchTokens = 256;
constexpr size_t kSequences = 8;
// A chunk as long as any prompt.
constexpr int32_t kWhole = 128;

// One sequence of the matrix: what it starts with and how its next token is chosen.
struct Subject {
  std::vector<int32_t> prompt;
  SamplingParams params;
};

// What one run of a subject gave.
struct Outcome {
  std::vector<int32_t> tokens;  // generated
  std::vector<float> logits;    // [prompt + generated - 1, vocab], by position
};

// Prompts of very different lengths, one of them longer than the goldens' sliding windows; every
// second is sampled.
std::vector<Subject> MakeSubjects(int32_t vocab_size) {
  const std::vector<size_t> lengths = {1, 2, 5, 13, 33, 40, 65, 100};
  std::vector<Subject> subjects;
  for (size_t i = 0; i < kSequences; ++i) {
    Subject subject;
    for (size_t t = 0; t < lengths[i]; ++t) {
      subject.prompt.push_back(
          static_cast<int32_t>(UniformAt(100 + i, t) * static_cast<double>(vocab_size)));
    }
    if (i % 2 == 1) {
      subject.params = {.temperature = 0.9f,
                        .top_k = 40,
                        .top_p = 0.95f,
                        .min_p = 0.01f,
                        .repetition_penalty = 1.1f,
                        .presence_penalty = 0.1f,
                        .seed = 1000 + i};
    }
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

// One subject on its way through an engine.
struct Runner {
  const Subject* subject = nullptr;
  SequenceId sequence = -1;
  std::vector<int32_t> tokens;  // prompt and answer
  size_t computed = 0;
  Outcome outcome;
  bool done() const { return outcome.tokens.size() == static_cast<size_t>(kNewTokens); }
};

struct Case {
  const char* model;
  ActivationType activations = ActivationType::kInt8;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.model << (c.activations == ActivationType::kBFloat16 ? ", bf16" : "");
}

class MatrixTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    COLIBRI_REQUIRE_ASSETS();
    for (const int32_t n_threads : {1, 2}) {
      auto engine = Engine::Create(testing::AssetsDir() + "/" + GetParam().model,
                                   {.n_threads = n_threads,
                                    .max_context = 192,
                                    .max_batch_tokens = kMaxBatchTokens,
                                    .max_sequences = static_cast<int32_t>(kSequences),
                                    .activations = GetParam().activations},
                                   {});
      ASSERT_TRUE(engine.ok()) << GetParam() << ": " << engine.status().ToString();
      engines_.push_back(std::move(engine).value());
    }
    subjects_ = MakeSubjects(engines_[0]->vocab_size());
  }

  // Runs the subjects of `order` together, in steps of at most `chunk` tokens of each. The i-th
  // starts i % 3 steps after the first, so that prompts and decodes meet in one batch.
  std::vector<Outcome> Run(Engine& engine, const std::vector<size_t>& order, int32_t chunk) {
    const auto vocab = static_cast<size_t>(engine.vocab_size());
    std::vector<Runner> runners(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      runners[i].subject = &subjects_[order[i]];
      runners[i].tokens = subjects_[order[i]].prompt;
      auto sequence =
          engine.CreateSequence(static_cast<int32_t>(runners[i].tokens.size()) + kNewTokens);
      EXPECT_TRUE(sequence.ok()) << sequence.status().ToString();
      runners[i].sequence = *sequence;
    }
    std::vector<float> logits(kMaxBatchTokens * vocab);
    std::vector<StepResult> results(order.size());
    Sampler sampler(engine.vocab_size());
    for (size_t step = 0;; ++step) {
      std::vector<StepItem> items;
      std::vector<Runner*> owners;
      size_t left = kMaxBatchTokens;
      for (size_t i = 0; i < runners.size(); ++i) {
        Runner& r = runners[i];
        if (r.done() || step < i % 3) continue;
        const size_t n = std::min({r.tokens.size() - r.computed, static_cast<size_t>(chunk), left});
        if (n == 0) continue;
        left -= n;
        items.push_back({.sequence = r.sequence,
                         .tokens = std::span(r.tokens).subspan(r.computed, n),
                         .want = LogitsWanted::kAll});
        owners.push_back(&r);
      }
      if (items.empty()) break;
      const auto stepped = engine.Step(items, {.logits = logits, .results = results});
      EXPECT_TRUE(stepped.ok()) << stepped.status().ToString();
      for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_TRUE(results[i].status.ok()) << results[i].status.ToString();
        Runner& r = *owners[i];
        const float* rows =
            logits.data() + static_cast<size_t>(results[i].first_logits_row) * vocab;
        const size_t n = items[i].tokens.size();
        r.outcome.logits.insert(r.outcome.logits.end(), rows, rows + n * vocab);
        r.computed += n;
        if (r.computed < r.tokens.size()) continue;
        const auto token = sampler.Sample(r.subject->params, {rows + (n - 1) * vocab, vocab},
                                          {r.tokens, r.subject->prompt.size()});
        EXPECT_TRUE(token.ok()) << token.status().ToString();
        r.tokens.push_back(token.ok() ? *token : 0);
        r.outcome.tokens.push_back(r.tokens.back());
      }
    }
    std::vector<Outcome> outcomes;
    for (Runner& r : runners) {
      EXPECT_TRUE(engine.ReleaseSequence(r.sequence).ok());
      outcomes.push_back(std::move(r.outcome));
    }
    return outcomes;
  }

  // Every subject alone, in one chunk, on one thread.
  std::vector<Outcome> Reference() {
    std::vector<Outcome> reference;
    for (size_t i = 0; i < subjects_.size(); ++i) {
      reference.push_back(std::move(Run(*engines_[0], {i}, kWhole)[0]));
    }
    return reference;
  }

  void ExpectSameBits(const Outcome& expected, const Outcome& got, const std::string& what) {
    const auto vocab = static_cast<size_t>(engines_[0]->vocab_size());
    ASSERT_EQ(got.logits.size(), expected.logits.size()) << what;
    for (size_t i = 0; i < expected.logits.size(); ++i) {
      ASSERT_EQ(std::memcmp(&got.logits[i], &expected.logits[i], sizeof(float)), 0)
          << GetParam() << ", " << what << ", position " << i / vocab << ", token " << i % vocab
          << ": " << got.logits[i] << ", alone " << expected.logits[i];
    }
    ASSERT_EQ(got.tokens, expected.tokens) << GetParam() << ", " << what;
  }

  std::vector<std::unique_ptr<Engine>> engines_;  // of one and of two threads
  std::vector<Subject> subjects_;
};

TEST_P(MatrixTest, BatchesChunksThreadsAndOrderChangeNoBit) {
  const std::vector<Outcome> reference = Reference();
  std::vector<size_t> in_order(kSequences);
  std::iota(in_order.begin(), in_order.end(), 0);
  const std::vector<size_t> shuffled = {5, 0, 7, 2, 6, 3, 1, 4};
  for (const auto& engine : engines_) {
    for (const int32_t chunk : {1, 7, 64, kWhole}) {
      const std::string setting =
          StrCat("chunks of ", chunk, ", ", engine->n_threads(), " threads");
      for (size_t i = 0; i < kSequences; ++i) {
        ExpectSameBits(reference[i], Run(*engine, {i}, chunk)[0],
                       StrCat("sequence ", i, " alone, ", setting));
      }
      for (const auto& order : {in_order, shuffled}) {
        const std::vector<Outcome> outcomes = Run(*engine, order, chunk);
        for (size_t i = 0; i < kSequences; ++i) {
          ExpectSameBits(reference[order[i]], outcomes[i],
                         StrCat("sequence ", order[i], " as number ", i, " of 8, ", setting));
        }
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatrixTest, ACachedPrefixChangesNoBit) {
  const std::vector<Outcome> reference = Reference();
  Engine& engine = *engines_[1];
  const auto vocab = static_cast<size_t>(engine.vocab_size());
  const Subject& subject = subjects_.back();
  const auto n = static_cast<int32_t>(subject.prompt.size());
  auto sequence = engine.CreateSequence(n);
  ASSERT_TRUE(sequence.ok());
  std::vector<float> logits(subject.prompt.size() * vocab);
  std::vector<StepResult> results(1);
  for (const int32_t prefix : {0, 1, 31, 32, 33, 64, n - 1}) {
    ASSERT_TRUE(engine.TruncateSequence(*sequence, prefix).ok());
    const std::vector<StepItem> items = {
        {.sequence = *sequence,
         .tokens = std::span(subject.prompt).subspan(static_cast<size_t>(prefix)),
         .want = LogitsWanted::kAll}};
    ASSERT_TRUE(engine.Step(items, {.logits = logits, .results = results}).ok());
    ASSERT_TRUE(results[0].status.ok());
    ASSERT_EQ(std::memcmp(logits.data(),
                          reference.back().logits.data() + static_cast<size_t>(prefix) * vocab,
                          static_cast<size_t>(n - prefix) * vocab * sizeof(float)),
              0)
        << GetParam() << ", " << prefix << " tokens cached";
  }
  ASSERT_TRUE(engine.ReleaseSequence(*sequence).ok());
}

TEST_P(MatrixTest, TheSchedulerAndASessionGiveTheSameTokens) {
  const std::vector<Outcome> reference = Reference();
  const auto request_of = [&](size_t i) {
    GenerateRequest request;
    request.prompt = subjects_[i].prompt;
    request.sampling = subjects_[i].params;
    request.max_new_tokens = kNewTokens;
    request.ignore_eos = true;
    return request;
  };
  for (const auto& engine : engines_) {
    for (const int32_t max_running : {1, 3, 8}) {
      std::vector<GenerateRequest> requests;
      for (size_t i = 0; i < kSequences; ++i) requests.push_back(request_of(i));
      const auto results =
          RunBatch(*engine, std::move(requests), {.max_running = max_running, .prefill_chunk = 24});
      ASSERT_TRUE(results.ok()) << results.status().ToString();
      for (size_t i = 0; i < kSequences; ++i) {
        EXPECT_EQ((*results)[i].tokens, reference[i].tokens)
            << GetParam() << ", sequence " << i << " of " << max_running << " at a time";
      }
    }
    auto session = Session::Create(*engine, {});
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    for (const size_t i : {size_t{7}, size_t{7}, size_t{2}, size_t{7}}) {
      const auto result = (*session)->Generate(request_of(i));
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      EXPECT_EQ(result->tokens, reference[i].tokens) << GetParam() << ", session, sequence " << i;
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model;
  name.erase(0, name.find('/') + 1);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  if (info.param.activations == ActivationType::kBFloat16) name += "_bf16";
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Models, MatrixTest,
    ::testing::Values(Case{"models/nano"}, Case{"models/nano/nano-q8_0.gguf"},
                      Case{"goldens/mixtral"}, Case{"goldens/mixtral_sliding"},
                      Case{"goldens/qwen2_moe_hybrid"}, Case{"goldens/olmoe"},
                      Case{"goldens/deepseek_v2"}, Case{"goldens/deepseek_v3"},
                      Case{"goldens/gpt_oss"}, Case{"goldens/phimoe"}, Case{"goldens/granite_moe"},
                      Case{"models/nano/nano-q8_0.gguf", ActivationType::kBFloat16}),
    NameOf);

}  // namespace
}  // namespace colibri
