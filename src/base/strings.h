// base/strings.h - the few string helpers that everything else uses.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

namespace internal {
void AppendPiece(std::string& out, std::string_view piece);
void AppendPiece(std::string& out, char piece);
void AppendPiece(std::string& out, double piece);
template <typename T>
requires std::is_integral_v<T>
void AppendPiece(std::string& out, T piece) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), piece).ptr;
  out.append(buffer, static_cast<size_t>(end - buffer));
}
}  // namespace internal

// Joins strings, characters and numbers: StrCat("tensor ", name, " has ", n, " rows").
template <typename... Pieces>
std::string StrCat(const Pieces&... pieces) {
  std::string out;
  (internal::AppendPiece(out, pieces), ...);
  return out;
}

// "a, b, c" from {"a", "b", "c"}.
std::string StrJoin(const std::vector<std::string>& pieces, std::string_view separator);

// "[2, 3]" from {2, 3}.
std::string ShapeString(const std::vector<uint64_t>& shape);

// "17.9 MiB": three significant digits with a binary unit.
std::string FormatBytes(uint64_t bytes);

// The whole of `text` as a number, or nothing.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<double> ParseDouble(std::string_view text);

// Text from outside, cut to `max` bytes and with unprintable bytes as \xNN, so that it can stand in
// a message.
std::string Printable(std::string_view text, size_t max = 80);

}  // namespace colibri
