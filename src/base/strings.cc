#include "base/strings.h"

#include <array>
#include <cstdio>

namespace colibri {

namespace internal {
void AppendPiece(std::string& out, std::string_view piece) {
  out.append(piece);
}
void AppendPiece(std::string& out, char piece) {
  out.push_back(piece);
}
void AppendPiece(std::string& out, double piece) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), piece).ptr;
  out.append(buffer, end);
}
}  // namespace internal

std::string StrJoin(const std::vector<std::string>& pieces, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(pieces[i]);
  }
  return out;
}

std::string ShapeString(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  const int decimals = unit == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  char buffer[48];
  std::snprintf(buffer, sizeof(buffer), "%.*f %s", decimals, value, kUnits[unit]);
  return buffer;
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseDouble(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string Printable(std::string_view text, size_t max) {
  std::string out;
  for (const char c : text.substr(0, max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\x%02x", byte);
      out += buffer;
    } else {
      out += c;
    }
  }
  if (text.size() > max) out += "...";
  return out;
}

}  // namespace colibri
