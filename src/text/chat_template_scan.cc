#include "text/chat_template_scan.h"

#include "base/strings.h"

namespace colibri {
namespace {

// Real templates stay below 40 KiB, a thousand pieces and ten blocks that enclose one another.
constexpr size_t kMaxTemplateBytes = 128 << 10;
constexpr size_t kMaxPieces = 2048;
constexpr size_t kMaxBlocks = 64;

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Result<std::vector<TemplatePiece>> Scan() {
    if (text_.size() > kMaxTemplateBytes) {
      return Unsupported(StrCat("a chat template of ", text_.size(), " bytes; at most ",
                                kMaxTemplateBytes, " are read"));
    }
    while (pos_ < text_.size()) {
      const size_t open = FindOpen(pos_);
      COLIBRI_RETURN_IF_ERROR(AddText(text_.substr(pos_, open - pos_), open));
      if (open == text_.size()) break;
      COLIBRI_RETURN_IF_ERROR(AddTag(open));
    }
    if (!blocks_.empty()) return Unsupported("a chat template with a block that does not end");
    return std::move(pieces_);
  }

 private:
  size_t FindOpen(size_t from) const {
    for (size_t at = text_.find('{', from); at != std::string_view::npos && at + 1 < text_.size();
         at = text_.find('{', at + 1)) {
      const char kind = text_[at + 1];
      if (kind == '{' || kind == '%' || kind == '#') return at;
    }
    return text_.size();
  }

  // Where "%}" or "}}" stands, outside string literals.
  size_t FindClose(size_t from, std::string_view close) const {
    char quote = '\0';
    for (size_t at = from; at + 1 < text_.size(); ++at) {
      if (quote != '\0') {
        if (text_[at] == '\\') {
          ++at;
        } else if (text_[at] == quote) {
          quote = '\0';
        }
      } else if (text_[at] == '\'' || text_[at] == '"') {
        quote = text_[at];
      } else if (text_.substr(at, 2) == close) {
        return at;
      }
    }
    return std::string_view::npos;
  }

  // Text is written as it stands but for the white space that the tags around it take away: "-" on
  // either side, and with the settings of Hugging Face the newline behind a statement and the
  // blanks before one on its line.
  Status AddText(std::string_view text, size_t open) {
    if (strip_left_) {
      const size_t begin = text.find_first_not_of(" \t\r\n");
      text = begin == std::string_view::npos ? std::string_view() : text.substr(begin);
    } else if (after_statement_ && text.starts_with('\n')) {
      text.remove_prefix(1);
    }
    if (open < text_.size()) {
      if (open + 2 < text_.size() && text_[open + 2] == '-') {
        const size_t last = text.find_last_not_of(" \t\r\n");
        text = last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
      } else if (text_[open + 1] != '{') {
        const size_t last = text.find_last_not_of(" \t");
        if (last != std::string_view::npos && text[last] == '\n') text = text.substr(0, last + 1);
      }
    }
    if (text.empty()) return Status();
    return AddPiece(TemplatePiece::Kind::kText, text);
  }

  Status AddTag(size_t open) {
    const char kind = text_[open + 1];
    const std::string_view close_mark = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const size_t close =
        kind == '#' ? text_.find(close_mark, open + 2) : FindClose(open + 2, close_mark);
    if (close == std::string_view::npos) {
      return Unsupported(StrCat("a chat template with a tag that does not end, at offset ", open));
    }
    std::string_view source = text_.substr(open + 2, close - open - 2);
    strip_left_ = source.ends_with('-');
    after_statement_ = kind != '{';
    pos_ = close + 2;
    if (source.starts_with('-') || source.starts_with('+')) source.remove_prefix(1);
    if (source.ends_with('-') || source.ends_with('+')) source.remove_suffix(1);
    source = Trim(source);
    if (kind == '#') return Status();
    if (kind == '%') return AddStatement(source);
    return AddPiece(TemplatePiece::Kind::kExpression, source);
  }

  Status AddStatement(std::string_view source) {
    const size_t space = source.find_first_of(" \t\r\n(");
    const std::string_view word = source.substr(0, space);
    const std::string rest(space == std::string_view::npos ? std::string_view()
                                                           : Trim(source.substr(space)));
    if (word == "if") return Open({TemplateBlock::Kind::kBranch, rest, {}});
    if (word == "for") return Open({TemplateBlock::Kind::kFor, rest, {}});
    if (word == "macro" || word == "call" || word == "filter" || word == "generation" ||
        (word == "set" && source.find('=') == std::string_view::npos)) {
      return Open({TemplateBlock::Kind::kOther, std::string(source), {}});
    }
    if (word == "elif" || word == "else") return Branch(word == "elif", rest);
    if (word.starts_with("end")) {
      if (blocks_.empty()) return Unsupported("a chat template that ends a block it did not begin");
      blocks_.pop_back();
      return Status();
    }
    return AddPiece(TemplatePiece::Kind::kStatement, source);
  }

  Status AddPiece(TemplatePiece::Kind kind, std::string_view source) {
    if (pieces_.size() == kMaxPieces) {
      return Unsupported(StrCat("a chat template of more than ", kMaxPieces, " pieces"));
    }
    pieces_.push_back({kind, std::string(source), blocks_});
    return Status();
  }

  Status Open(TemplateBlock block) {
    if (blocks_.size() == kMaxBlocks) return Unsupported("a chat template nested this deep");
    blocks_.push_back(std::move(block));
    return Status();
  }

  // A later branch holds where the earlier conditions do not.
  Status Branch(bool has_condition, const std::string& condition) {
    if (blocks_.empty() || blocks_.back().kind != TemplateBlock::Kind::kBranch) {
      return Unsupported("a chat template with an 'else' outside an 'if'");
    }
    TemplateBlock& block = blocks_.back();
    block.failed.push_back(block.holds);
    block.holds = has_condition ? condition : std::string();
    return Status();
  }

  std::string_view text_;
  size_t pos_ = 0;
  bool strip_left_ = false;
  bool after_statement_ = false;
  std::vector<TemplateBlock> blocks_;
  std::vector<TemplatePiece> pieces_;
};

}  // namespace

Result<std::vector<TemplatePiece>> ScanChatTemplate(std::string_view text) {
  return Scanner(text).Scan();
}

}  // namespace colibri
