// text/chat_format.h - conversations as token ids, for models whose chat template is ChatML.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace colibri {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// What a chat template says beyond ChatML's turns. Read from the template's text, not by running
// it:
//   - turns "<|im_start|>ROLE\nCONTENT<|im_end|>\n", written by an expression in a loop;
//   - a default system message, if "<|im_start|>system\nTEXT<|im_end|>" stands under a condition
//     that the first message is not of the system; branches for tools are taken as not reached;
//   - the text that opens the answer under "add_generation_prompt", with variables such as
//     enable_thinking taken as undefined;
//   - bos_token before everything; content that is trimmed; reasoning up to "</think>" that is cut
//     off answers of earlier turns.
// A template that does anything else with plain messages is refused.
struct ChatTemplateFacts {
  bool writes_bos = false;
  std::optional<std::string> default_system;
  std::string answer_prefix;  // behind "<|im_start|>assistant\n", for example "<think>\n"
  bool trims_content = false;
  bool cuts_reasoning = false;
  bool system_only_first = false;  // the template refuses a system message anywhere else
};

// Fails with Unsupported when the template isn't ChatML as above, saying what stands in the way.
[[nodiscard]] Result<ChatTemplateFacts> ReadChatTemplate(std::string_view chat_template);

// Renders conversations for one tokenizer, which must outlive it. Immutable.
class ChatFormat {
 public:
  // Also fails when the vocabulary lacks <|im_start|> or <|im_end|>.
  static Result<ChatFormat> Make(std::string_view chat_template, const Tokenizer& tokenizer);

  // The ids of the conversation and, with `open_answer`, of the start of the model's answer. What a
  // message contains is never read as a special token. Fails with InvalidArgument for another role
  // or bad UTF-8, naming the message.
  [[nodiscard]] Result<std::vector<int32_t>> Render(std::span<const ChatMessage> messages,
                                                    bool open_answer) const;

  // The token that ends a turn.
  int32_t end_of_turn() const { return end_; }
  const ChatTemplateFacts& facts() const { return facts_; }

 private:
  ChatFormat(const Tokenizer& tokenizer, ChatTemplateFacts facts, int32_t start, int32_t end)
      : tokenizer_(&tokenizer), facts_(std::move(facts)), start_(start), end_(end) {}

  const Tokenizer* tokenizer_;
  ChatTemplateFacts facts_;
  int32_t start_;
  int32_t end_;
};

}  // namespace colibri
