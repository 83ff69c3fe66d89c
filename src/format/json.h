// format/json.h - JSON of model files, parsed with caps. Internal to format/.
#pragma once

#include <simdjson.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace colibri {

// Objects and lists within each other; real configurations have five.
inline constexpr size_t kMaxJsonDepth = 64;

// A parsed text; `root` and everything reached from it live as long as this.
struct JsonDocument {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
};

// Fails with CorruptData when the text is no JSON, is no valid UTF-8 (naming the offset of the
// first bad byte) or is nested deeper than kMaxJsonDepth. `origin` names the text in errors.
Result<std::unique_ptr<JsonDocument>> ParseJson(std::string_view text, std::string_view origin);

// Python writes numbers that JSON does not have: Infinity, -Infinity and NaN, and integers of any
// length. This gives a text that ParseJson takes: the first three become strings that
// ParsePythonNumber knows, integers beyond 64 bits become decimals.
std::string ReplacePythonNumbers(std::string_view text);

// The number that such a string stands for, or nothing for any other string.
std::optional<double> ParsePythonNumber(std::string_view text);

// Puts Infinity, -Infinity and NaN back into JSON that was written from such a text.
std::string RestorePythonNumbers(std::string text);

// Appends a string literal. Bytes above 0x7f pass as they are.
void AppendJsonString(std::string& json, std::string_view text);

}  // namespace colibri
