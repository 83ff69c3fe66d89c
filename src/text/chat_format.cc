#include "text/chat_format.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "text/chat_template_scan.h"

namespace colibri {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kThinkEnd = "</think>";
// Stand for a message's role and content in what a template writes.
constexpr char kRoleSlot = '\x01';
constexpr char kContentSlot = '\x02';
constexpr int kMaxConditionDepth = 16;

enum class Truth { kFalse, kTrue, kUnknown };

Truth ToTruth(bool value) {
  return value ? Truth::kTrue : Truth::kFalse;
}
Truth Not(Truth a) {
  return a == Truth::kUnknown ? a : ToTruth(a == Truth::kFalse);
}
Truth And(Truth a, Truth b) {
  if (a == Truth::kFalse || b == Truth::kFalse) return Truth::kFalse;
  return a == Truth::kTrue && b == Truth::kTrue ? Truth::kTrue : Truth::kUnknown;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view Trim(std::string_view text, std::string_view blanks = " \t\r\n") {
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// Where `separator` first stands outside quotes and brackets.
size_t FindOutside(std::string_view text, std::string_view separator) {
  int depth = 0;
  char quote = '\0';
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      if (c == '\\') ++at;
      if (c == quote) quote = '\0';
      continue;
    }
    if (depth == 0 && text.substr(at).starts_with(separator)) return at;
    if (c == '\'' || c == '"') quote = c;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
  }
  return std::string_view::npos;
}

// A conversation of plain messages, as far as conditions of templates ask about it.
struct Scene {
  bool has_system = false;  // the first message is of the system
  bool loop_first = false;
  std::string role;  // of the message in a loop; empty outside
  bool open_answer = true;
};

class Conditions {
 public:
  explicit Conditions(const Scene& scene) : scene_(scene) {}

  Truth OfBlocks(const std::vector<TemplateBlock>& blocks) const {
    Truth reached = Truth::kTrue;
    for (const TemplateBlock& block : blocks) {
      if (block.kind == TemplateBlock::Kind::kOther) return Truth::kFalse;  // a macro's body
      if (block.kind != TemplateBlock::Kind::kBranch) continue;
      for (const std::string& failed : block.failed) reached = And(reached, Not(Of(failed, 0)));
      if (!block.holds.empty()) reached = And(reached, Of(block.holds, 0));
    }
    return reached;
  }

 private:
  Truth Of(std::string_view text, int depth) const {
    if (depth > kMaxConditionDepth) return Truth::kUnknown;
    text = Trim(text);
    if (const size_t at = FindOutside(text, " or "); at != std::string_view::npos) {
      return Not(
          And(Not(Of(text.substr(0, at), depth + 1)), Not(Of(text.substr(at + 4), depth + 1))));
    }
    if (const size_t at = FindOutside(text, " and "); at != std::string_view::npos) {
      return And(Of(text.substr(0, at), depth + 1), Of(text.substr(at + 5), depth + 1));
    }
    if (text.starts_with("not ") || text.starts_with("not(")) {
      return Not(Of(text.substr(3), depth + 1));
    }
    if (text.starts_with('(') && text.ends_with(')')) {
      return Of(text.substr(1, text.size() - 2), depth + 1);
    }
    return OfAtom(text);
  }

  Truth OfAtom(std::string_view text) const {
    const bool asks_absence = Has(text, "is not defined") || Has(text, "is none");
    if (text == "messages") return Truth::kTrue;
    if (Has(text, "tools") || Has(text, "tool_calls") || Has(text, "documents")) {
      return ToTruth(asks_absence);
    }
    if (text == "add_generation_prompt") return ToTruth(scene_.open_answer);
    if (text == "add_generation_prompt is defined") return Truth::kTrue;
    if (Has(text, "messages[0]") && Has(text, "system")) return Compare(text, scene_.has_system);
    if (text == "system_message is defined") return ToTruth(scene_.has_system);
    if (text == "loop.first") return ToTruth(scene_.loop_first);
    if (Has(text, "last_query_index"))
      return Truth::kFalse;  // only answers behind the last question
    if (Has(text, "message.role") || Has(text, "message['role']") ||
        Has(text, "message[\"role\"]")) {
      return OfRole(text);
    }
    if (Has(text, "reasoning_content")) return ToTruth(asks_absence);
    if (Has(text, "</think>") && Has(text, " in ")) return Truth::kFalse;  // cut off beforehand
    if (text.starts_with("enable_thinking")) return ToTruth(asks_absence);
    if (text.ends_with(" is string") && Has(text, "content")) return Truth::kTrue;
    return Truth::kUnknown;
  }

  static Truth Compare(std::string_view text, bool equal) {
    if (Has(text, "==")) return ToTruth(equal);
    if (Has(text, "!=")) return ToTruth(!equal);
    return Truth::kUnknown;
  }

  Truth OfRole(std::string_view text) const {
    if (scene_.role.empty()) return Truth::kUnknown;
    const size_t operation = std::min(text.find("=="), text.find("!="));
    if (operation == std::string_view::npos) return Truth::kUnknown;
    const std::string_view name = Trim(text.substr(operation + 2), " '\"");
    return Compare(text, name == scene_.role);
  }

  const Scene& scene_;
};

bool InLoop(const TemplatePiece& piece) {
  return std::any_of(piece.blocks.begin(), piece.blocks.end(), [](const TemplateBlock& block) {
    return block.kind == TemplateBlock::Kind::kFor;
  });
}

bool LoopsOverMessages(const TemplatePiece& piece) {
  int loops = 0;
  bool over_messages = false;
  for (const TemplateBlock& block : piece.blocks) {
    if (block.kind != TemplateBlock::Kind::kFor) continue;
    ++loops;
    over_messages =
        block.holds == "message in messages" || block.holds == "message in loop_messages";
  }
  return loops == 1 && over_messages;
}

// What plain conversations make a template write, piece by piece.
class TemplateReader {
 public:
  explicit TemplateReader(std::vector<TemplatePiece> pieces) : pieces_(std::move(pieces)) {}

  Result<ChatTemplateFacts> Read() {
    COLIBRI_RETURN_IF_ERROR(ReadTurns());
    COLIBRI_RETURN_IF_ERROR(ReadOpening());
    COLIBRI_RETURN_IF_ERROR(ReadAnswer());
    return facts_;
  }

 private:
  // The text of one expression with slots for role and content; fails for anything else in it.
  Result<std::string> Written(const TemplatePiece& piece) {
    if (piece.kind == TemplatePiece::Kind::kText) return piece.source;
    std::string text;
    std::string_view rest = piece.source;
    while (true) {
      const size_t plus = std::min(FindOutside(rest, "+"), FindOutside(rest, "~"));
      const std::string_view part = Trim(rest.substr(0, plus));
      COLIBRI_ASSIGN_OR_RETURN(const std::string written, WrittenPart(part));
      text += written;
      if (plus == std::string_view::npos) return text;
      rest = rest.substr(plus + 1);
    }
  }

  Result<std::string> WrittenPart(std::string_view part) {
    if (part.size() >= 2 && (part[0] == '\'' || part[0] == '"') && part.back() == part[0]) {
      return Unescape(part.substr(1, part.size() - 2));
    }
    constexpr std::string_view kTrims[] = {"|trim", "| trim", ".strip()"};
    for (const std::string_view trim : kTrims) {
      if (!part.ends_with(trim)) continue;
      facts_.trims_content = true;
      part = Trim(part.substr(0, part.size() - trim.size()));
    }
    if (part == "message.role" || part == "message['role']" || part == "message[\"role\"]") {
      return std::string(1, kRoleSlot);
    }
    if (part == "message.content" || part == "message['content']" ||
        part == "message[\"content\"]" || part == "content" || part == "messages[0].content" ||
        part == "messages[0]['content']" || part == "system_message") {
      return std::string(1, kContentSlot);
    }
    if (part == "bos_token") {
      facts_.writes_bos = true;
      return std::string();
    }
    return Unsupported(StrCat("a chat template that writes '", Printable(part), "'"));
  }

  static std::string Unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    return out;
  }

  // All that is written in `scene` by the pieces that `wanted` selects.
  template <typename Wanted>
  Result<std::string> WrittenIn(const Scene& scene, Wanted&& wanted) {
    std::string text;
    const Conditions conditions(scene);
    for (const TemplatePiece& piece : pieces_) {
      if (!wanted(piece)) continue;
      const Truth reached = conditions.OfBlocks(piece.blocks);
      if (reached == Truth::kFalse) continue;
      if (piece.kind == TemplatePiece::Kind::kStatement) {
        NoteStatement(piece.source);
        continue;
      }
      if (piece.source.starts_with("raise_exception(")) continue;  // for messages it refuses
      if (reached == Truth::kUnknown) {
        return Unsupported(StrCat("a chat template that writes '", Printable(piece.source, 60),
                                  "' under the condition '",
                                  Printable(piece.blocks.back().holds, 60), "'"));
      }
      COLIBRI_ASSIGN_OR_RETURN(const std::string written, Written(piece));
      text += written;
    }
    return text;
  }

  void NoteStatement(std::string_view source) {
    if (source.starts_with("set content") && Has(source, "trim")) facts_.trims_content = true;
  }

  // In the loop over messages every role must write one turn and nothing else.
  Status ReadTurns() {
    for (const TemplatePiece& piece : pieces_) {
      if (Has(piece.source, "split('</think>')")) facts_.cuts_reasoning = true;
    }
    for (const std::string role : {"user", "assistant", "system"}) {
      const Scene scene{.has_system = true, .loop_first = false, .role = role};
      COLIBRI_ASSIGN_OR_RETURN(std::string written, WrittenIn(scene, LoopsOverMessages));
      if (const size_t slot = written.find(kRoleSlot); slot != std::string::npos) {
        written.replace(slot, 1, role);
      }
      if (role == "system" && written.empty()) {
        facts_.system_only_first = true;
        continue;
      }
      if (written != StrCat(kStart, role, "\n", std::string(1, kContentSlot), kEnd, "\n")) {
        return Unsupported(StrCat("a chat template that is not ChatML: for a message of the role '",
                                  role, "' it writes '", Printable(written, 120), "'"));
      }
    }
    return Status();
  }

  // What stands before the turns: with a system message nothing or that message, without one
  // nothing or a default.
  Status ReadOpening() {
    const auto opens = [](const TemplatePiece& piece) {
      return !InLoop(piece) || LoopsOverMessages(piece);
    };
    const auto outside = [](const TemplatePiece& piece) { return !InLoop(piece); };
    Scene scene{.has_system = true, .loop_first = false, .role = "user", .open_answer = false};
    COLIBRI_ASSIGN_OR_RETURN(const std::string with_system, WrittenIn(scene, outside));
    const std::string turn = StrCat(kStart, "system\n", std::string(1, kContentSlot), kEnd, "\n");
    if (!with_system.empty() && with_system != turn) return NotPlain(with_system);
    if (!facts_.system_only_first) {
      COLIBRI_RETURN_IF_ERROR(CheckFirstSystemIsWrittenOnce(!with_system.empty()));
    } else if (with_system.empty()) {
      return Unsupported("a chat template that does not write system messages");
    }
    scene.has_system = false;
    scene.loop_first = true;
    COLIBRI_ASSIGN_OR_RETURN(const std::string without, WrittenIn(scene, opens));
    // The first turn, of the user, stands last.
    const size_t user_turn = without.rfind(kStart);
    const std::string_view opening = std::string_view(without).substr(0, user_turn);
    if (opening.empty()) return Status();
    const std::string head = StrCat(kStart, "system\n"), tail = StrCat(kEnd, "\n");
    if (!opening.starts_with(head) || !opening.ends_with(tail)) return NotPlain(without);
    const std::string_view text =
        opening.substr(head.size(), opening.size() - head.size() - tail.size());
    if (Has(text, kStart) || Has(text, kEnd) || Has(text, std::string_view(&kContentSlot, 1))) {
      return NotPlain(without);
    }
    facts_.default_system = std::string(text);
    return Status();
  }

  // A system message at the head comes from the loop or from what stands before it, not from both.
  Status CheckFirstSystemIsWrittenOnce(bool written_before) {
    const Scene scene{.has_system = true, .loop_first = true, .role = "system"};
    const auto all = [](const TemplatePiece& piece) {
      return LoopsOverMessages(piece) &&
             std::none_of(piece.blocks.begin(), piece.blocks.end(), [](const TemplateBlock& block) {
               return block.holds == "message in loop_messages";  // which starts behind it
             });
    };
    COLIBRI_ASSIGN_OR_RETURN(const std::string in_loop, WrittenIn(scene, all));
    if (written_before != in_loop.empty()) return NotPlain(in_loop);
    return Status();
  }

  static Status NotPlain(std::string_view written) {
    return Unsupported(StrCat("a chat template that is not ChatML: before the messages it writes '",
                              Printable(written, 120), "'"));
  }

  // What add_generation_prompt adds.
  Status ReadAnswer() {
    const auto outside = [](const TemplatePiece& piece) { return !InLoop(piece); };
    Scene scene{.has_system = true, .loop_first = false, .role = "user", .open_answer = true};
    COLIBRI_ASSIGN_OR_RETURN(const std::string open, WrittenIn(scene, outside));
    scene.open_answer = false;
    COLIBRI_ASSIGN_OR_RETURN(const std::string closed, WrittenIn(scene, outside));
    const std::string head = StrCat(kStart, "assistant\n");
    if (!open.starts_with(closed) ||
        !std::string_view(open).substr(closed.size()).starts_with(head)) {
      return Unsupported("a chat template without '<|im_start|>assistant' for the answer");
    }
    facts_.answer_prefix = open.substr(closed.size() + head.size());
    return Status();
  }

  std::vector<TemplatePiece> pieces_;
  ChatTemplateFacts facts_;
};

}  // namespace

Result<ChatTemplateFacts> ReadChatTemplate(std::string_view chat_template) {
  if (chat_template.empty()) return Unsupported("the model has no chat template");
  if (!Has(chat_template, kStart) || !Has(chat_template, kEnd)) {
    return Unsupported("a chat template that is not ChatML: it does not write <|im_start|>");
  }
  COLIBRI_ASSIGN_OR_RETURN(std::vector<TemplatePiece> pieces, ScanChatTemplate(chat_template));
  return TemplateReader(std::move(pieces)).Read();
}

Result<ChatFormat> ChatFormat::Make(std::string_view chat_template, const Tokenizer& tokenizer) {
  COLIBRI_ASSIGN_OR_RETURN(ChatTemplateFacts facts, ReadChatTemplate(chat_template));
  const std::optional<int32_t> start = tokenizer.TokenToId(kStart);
  const std::optional<int32_t> end = tokenizer.TokenToId(kEnd);
  if (!start || !end) {
    return Unsupported("a ChatML template whose tokenizer has no <|im_start|> and <|im_end|>");
  }
  if (facts.writes_bos && !tokenizer.special_ids().bos) {
    return Unsupported("a chat template that writes bos_token, which the tokenizer does not name");
  }
  return ChatFormat(tokenizer, std::move(facts), *start, *end);
}

Result<std::vector<int32_t>> ChatFormat::Render(std::span<const ChatMessage> messages,
                                                bool open_answer) const {
  if (facts_.cuts_reasoning && !open_answer && !messages.empty() &&
      messages.back().role == "assistant") {
    return Unsupported("this template writes a last answer in a way of its own");
  }
  std::vector<int32_t> ids;
  if (facts_.writes_bos) ids.push_back(*tokenizer_->special_ids().bos);
  const auto add_text = [&](std::string_view text, bool special) -> Status {
    COLIBRI_ASSIGN_OR_RETURN(
        const std::vector<int32_t> more,
        tokenizer_->Encode(text, {.add_special_tokens = false, .parse_special_in_text = special}));
    ids.insert(ids.end(), more.begin(), more.end());
    return Status();
  };
  const auto add_turn = [&](std::string_view role, std::string_view content) -> Status {
    ids.push_back(start_);
    COLIBRI_RETURN_IF_ERROR(add_text(StrCat(role, "\n", content), false));
    ids.push_back(end_);
    return add_text("\n", false);
  };
  if (facts_.default_system && (messages.empty() || messages[0].role != "system")) {
    COLIBRI_RETURN_IF_ERROR(add_turn("system", *facts_.default_system));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      return InvalidArgument(StrCat("message ", i, ": the role '", Printable(role),
                                    "' is not system, user or assistant"));
    }
    if (role == "system" && i > 0 && facts_.system_only_first) {
      return InvalidArgument(
          StrCat("message ", i, ": the template takes a system message at the beginning only"));
    }
    std::string_view content = messages[i].content;
    if (facts_.cuts_reasoning && role == "assistant") {
      if (const size_t at = content.rfind(kThinkEnd); at != std::string_view::npos) {
        content.remove_prefix(at + kThinkEnd.size());
        content.remove_prefix(std::min(content.find_first_not_of('\n'), content.size()));
      }
    }
    if (facts_.trims_content) content = Trim(content);
    Status status = add_turn(role, content);
    if (!status.ok()) return std::move(status).WithContext(StrCat("message ", i));
  }
  if (open_answer) {
    ids.push_back(start_);
    COLIBRI_RETURN_IF_ERROR(add_text(StrCat("assistant\n", facts_.answer_prefix), true));
  }
  return ids;
}

}  // namespace colibri
