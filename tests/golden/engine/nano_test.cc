// The whole way of a token on a trained model: text, chat format, tokenizer, batch, experts,
// sampler and text again, held against what the reference implementation answered.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "support/assets.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

// A sanitizer makes the forward pass some twenty times as slow: then one prompt in ten is asked,
// and the test says so.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COLIBRI_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COLIBRI_SANITIZED 1
#endif
#endif

namespace colibri {
namespace {

#ifdef COLIBRI_SANITIZED
constexpr size_t kEvery = 10;
#else
constexpr size_t kEvery = 1;
#endif

std::string NanoDir() {
  return testing::AssetsDir() + "/models/nano";
}

std::unique_ptr<Engine> LoadNano(const std::string& path) {
  auto engine = Engine::Create(
      path,
      {.max_context = 1024, .max_batch_tokens = 512, .max_sequences = 48, .kv_type = KvType::kF32},
      {});
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return engine.ok() ? std::move(engine).value() : nullptr;
}

std::vector<nlohmann::json> ReadJsonLines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(testing::ReadFile(path));
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

struct Question {
  std::string domain, answer;
  std::vector<ChatMessage> messages;
};

std::vector<Question> ReadQuestions() {
  std::vector<Question> questions;
  for (const auto& line : ReadJsonLines(NanoDir() + "/eval.jsonl")) {
    Question question{.domain = line["domain"], .answer = line["answer"], .messages = {}};
    for (const auto& message : line["messages"]) {
      question.messages.push_back({.role = message["role"], .content = message["content"]});
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

// Right answers of the 60 a domain, from the table in the model's own README.
std::map<std::string, double> ReadAccuracies() {
  std::map<std::string, double> accuracies;
  std::istringstream in(testing::ReadFile(NanoDir() + "/README.md"));
  bool in_table = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| domain |", 0) == 0) in_table = true;
    if (in_table && line.empty()) break;
    const size_t percent = line.find(" %");
    if (!in_table || percent == std::string::npos) continue;
    const std::string domain = line.substr(2, line.find(' ', 2) - 2);
    const size_t bar = line.find("| ", 2);
    accuracies[domain] = *ParseDouble(line.substr(bar + 2, percent - bar - 2)) / 100;
  }
  accuracies.erase("all");
  return accuracies;
}

class NanoTest : public ::testing::TestWithParam<const char*> {};

TEST_P(NanoTest, AnswersItsEvaluationAsWellAsItsReferenceDoes) {
  COLIBRI_REQUIRE_ASSETS();
  const auto engine = LoadNano(NanoDir() + GetParam());
  ASSERT_NE(engine, nullptr);
  ASSERT_NE(engine->tokenizer(), nullptr) << engine->tokenizer_status().ToString();
  const std::vector<Question> all = ReadQuestions();
  ASSERT_EQ(all.size(), 600u);
  std::vector<Question> questions;
  for (size_t i = 0; i < all.size(); i += kEvery) questions.push_back(all[i]);
  if (kEvery > 1) {
    std::cout << "sanitized build: one prompt in " << kEvery << ", " << questions.size()
              << " in all\n";
  }

  const auto format = ChatFormat::Make(engine->chat_template(), *engine->tokenizer());
  ASSERT_TRUE(format.ok()) << format.status().ToString();
  std::vector<GenerateRequest> requests;
  for (const Question& question : questions) {
    auto prompt = format->Render(question.messages, /*open_answer=*/true);
    ASSERT_TRUE(prompt.ok()) << prompt.status().ToString();
    GenerateRequest request;
    request.prompt = std::move(prompt).value();
    request.max_new_tokens = 256;
    requests.push_back(std::move(request));
  }
  const auto results = RunBatch(*engine, std::move(requests));
  ASSERT_TRUE(results.ok()) << results.status().ToString();

  std::map<std::string, int> asked, right;
  for (size_t i = 0; i < questions.size(); ++i) {
    const GenerateResult& result = (*results)[i];
    ASSERT_TRUE(result.status.ok()) << result.status.ToString();
    ++asked[questions[i].domain];
    if (result.text == questions[i].answer) {
      ++right[questions[i].domain];
    } else {
      std::cout << questions[i].domain << ": " << Printable(questions[i].messages.back().content)
                << ": " << Printable(result.text) << ", right is " << Printable(questions[i].answer)
                << "\n";
    }
  }
  const auto accuracies = ReadAccuracies();
  ASSERT_EQ(accuracies.size(), 10u);
  for (const auto& [domain, accuracy] : accuracies) {
    ASSERT_EQ(asked[domain], static_cast<int>(60 / kEvery)) << domain;
    EXPECT_NEAR(right[domain], accuracy * asked[domain], 1.02)
        << domain << ": " << right[domain] << " of " << asked[domain] << " right";
  }
}

INSTANTIATE_TEST_SUITE_P(Files, NanoTest, ::testing::Values("", "/nano-q8_0.gguf"),
                         [](const auto& file) {
                           return std::string(file.index == 0 ? "bf16_safetensors" : "q8_0_gguf");
                         });

TEST(Nano, ContinuesAsItsReferenceTokenByToken) {
  COLIBRI_REQUIRE_ASSETS();
  const auto engine = LoadNano(NanoDir());
  ASSERT_NE(engine, nullptr);
  const auto lines = ReadJsonLines(NanoDir() + "/expected.jsonl");
  ASSERT_EQ(lines.size(), 40u);
  std::vector<GenerateRequest> requests;
  for (const auto& line : lines) {
    GenerateRequest request;
    request.prompt = line["prompt_ids"].get<std::vector<int32_t>>();
    request.max_new_tokens = 48;
    requests.push_back(std::move(request));
  }
  const auto results = RunBatch(*engine, std::move(requests));
  ASSERT_TRUE(results.ok()) << results.status().ToString();
  for (size_t i = 0; i < lines.size(); ++i) {
    const GenerateResult& result = (*results)[i];
    EXPECT_EQ(result.tokens, lines[i]["output_ids"].get<std::vector<int32_t>>())
        << "line " << i + 1 << " (" << lines[i]["domain"] << "): " << Printable(result.text)
        << result.status.ToString();
  }
}

}  // namespace
}  // namespace colibri
