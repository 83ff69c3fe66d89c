// cli/json_text.h - JSON lines, written at the speed of the tokenizers that fill them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace colibri::cli {

// Appends `text` (UTF-8) as a JSON string.
void AppendJsonString(std::string& out, std::string_view text);
// Appends "[1, 2]".
void AppendJsonIds(std::string& out, std::span<const int32_t> ids);

}  // namespace colibri::cli
