// cli/prompt.h - from what a person says to the token ids that the model reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "text/chat_format.h"

namespace colibri::cli {

enum class PromptStyle : uint8_t {
  kChat,  // messages in the model's chat format
  kRaw,   // text to continue
};

// kRaw where it is asked for or the model has no chat template. Unsupported, with the way out, for
// a template that is not built in; NotFound when the model has no tokenizer.
Result<PromptStyle> ChoosePromptStyle(const Engine& engine, bool raw);

// The ids of a text to continue.
Result<std::vector<int32_t>> EncodeRaw(const Engine& engine, std::string_view text);

// The ids of a conversation, up to where the model's answer begins.
Result<std::vector<int32_t>> EncodeChat(const Engine& engine,
                                        std::span<const ChatMessage> messages);

}  // namespace colibri::cli
