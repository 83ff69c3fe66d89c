// text/chat_template_scan.h - a chat template cut into what it writes and under which conditions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace colibri {

// A block that encloses a piece of a template.
struct TemplateBlock {
  enum class Kind { kBranch, kFor, kOther };
  Kind kind = Kind::kOther;
  std::string holds;                // kBranch: its condition, empty for "else"; else the statement
  std::vector<std::string> failed;  // kBranch: the conditions of the branches before it
};

// A statement, an expression that is written, or text.
struct TemplatePiece {
  enum class Kind { kText, kExpression, kStatement };
  Kind kind = Kind::kText;
  std::string source;  // what stands between the delimiters, trimmed; text as it is written
  std::vector<TemplateBlock> blocks;  // from the outermost
};

// Cuts a template by Jinja's delimiters. Fails with Unsupported when they do not pair up, and for a
// template far larger than any real one: a piece keeps the conditions around it.
Result<std::vector<TemplatePiece>> ScanChatTemplate(std::string_view text);

}  // namespace colibri
