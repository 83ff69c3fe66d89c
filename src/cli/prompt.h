// cli/prompt.h - from what a person says to the token ids that the model reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace colibri::cli {

// For EngineOptions::check_chat_template: refuses a template that Prompter::Make would refuse,
// before gigabytes of weights are read for nothing.
std::function<Status(const std::string&)> TemplateCheck(std::string model, bool raw);

// How a model is asked: with messages in its chat format, or with text to continue.
class Prompter {
 public:
  // Text where `raw` asks for it or the model has no chat template. Unsupported, with the way out,
  // for a template that is not built in; NotFound when the model has no tokenizer. Errors name
  // `model`, the engine's path. `engine` must outlive it.
  static Result<Prompter> Make(const Engine& engine, const std::string& model, bool raw);

  bool is_chat() const { return format_.has_value(); }
  // The ids of a text to continue.
  Result<std::vector<int32_t>> EncodeText(std::string_view text) const;
  // The ids of a conversation, up to where the model's answer begins. is_chat() must hold.
  Result<std::vector<int32_t>> EncodeMessages(std::span<const ChatMessage> messages) const;

 private:
  explicit Prompter(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  const Tokenizer* tokenizer_;
  std::optional<ChatFormat> format_;
};

}  // namespace colibri::cli
