#include "cli/prompt.h"

#include "base/check.h"
#include "base/strings.h"

namespace colibri::cli {
namespace {

Status RefusedTemplate(const std::string& model, const Status& reason) {
  return Status(reason.code(), StrCat(model, ": ", reason.message(),
                                      "; with --raw, `colibri run` takes the prompt as it is"));
}

}  // namespace

std::function<Status(const std::string&)> TemplateCheck(std::string model, bool raw) {
  return [model = std::move(model), raw](const std::string& chat_template) {
    if (raw || chat_template.empty()) return Status();
    const Result<ChatTemplateFacts> facts = ReadChatTemplate(chat_template);
    return facts.ok() ? Status() : RefusedTemplate(model, facts.status());
  };
}

Result<Prompter> Prompter::Make(const Engine& engine, const std::string& model, bool raw) {
  if (engine.tokenizer() == nullptr) {
    Status status = engine.tokenizer_status();
    return std::move(status).WithContext(StrCat(model, ": holds no tokenizer"));
  }
  Prompter prompter(*engine.tokenizer());
  if (raw || engine.chat_template().empty()) return prompter;
  Result<ChatFormat> format = ChatFormat::Make(engine.chat_template(), *engine.tokenizer());
  if (!format.ok()) return RefusedTemplate(model, format.status());
  prompter.format_ = *std::move(format);
  return prompter;
}

Result<std::vector<int32_t>> Prompter::EncodeText(std::string_view text) const {
  return tokenizer_->Encode(text);
}

Result<std::vector<int32_t>> Prompter::EncodeMessages(std::span<const ChatMessage> messages) const {
  COLIBRI_CHECK(format_.has_value());
  return format_->Render(messages, /*open_answer=*/true);
}

}  // namespace colibri::cli
