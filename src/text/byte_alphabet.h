// text/byte_alphabet.h - the 256 printable characters that stand for bytes in byte-level BPE.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colibri {

// The code point that stands for `byte`: itself where that is printable, otherwise 256 + the number
// of unprintable bytes before it (GPT-2's table).
uint32_t ByteToCodePoint(uint8_t byte);

// Appends the characters of all bytes.
void AppendByteLevel(std::string_view bytes, std::string& out);

// The bytes that `text` (valid UTF-8) stands for; nothing when a character is not in the alphabet.
std::optional<std::string> FromByteLevel(std::string_view text);

}  // namespace colibri
