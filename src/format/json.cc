#include "format/json.h"

#include <array>
#include <limits>

#include "base/strings.h"

namespace colibri {
namespace {

struct PythonNumber {
  std::string_view literal;
  std::string_view quoted;  // as JSON
  std::string_view text;    // as parsed
  double value;
};

// A private-use character keeps the stand-ins apart from what people write. Longer literals first.
constexpr std::array<PythonNumber, 3> kPythonNumbers = {{
    {"-Infinity", "\"\xee\x80\x80-Infinity\"", "\xee\x80\x80-Infinity",
     -std::numeric_limits<double>::infinity()},
    {"Infinity", "\"\xee\x80\x80Infinity\"", "\xee\x80\x80Infinity",
     std::numeric_limits<double>::infinity()},
    {"NaN", "\"\xee\x80\x80NaN\"", "\xee\x80\x80NaN", std::numeric_limits<double>::quiet_NaN()},
}};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// The end of the string literal that opens at `begin`, past its closing quote.
size_t StringEnd(std::string_view text, size_t begin) {
  size_t i = begin + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// The end of the number that starts at `begin`, and whether it is an integer that no 64 bits hold.
struct NumberToken {
  size_t end;
  bool is_huge_integer;
};
NumberToken ScanNumber(std::string_view text, size_t begin) {
  size_t end = begin + (text[begin] == '-' ? 1 : 0);
  const size_t first_digit = end;
  while (end < text.size() && IsDigit(text[end])) ++end;
  const size_t n_digits = end - first_digit;
  bool is_integer = true;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == '.' || text[end] == 'e' ||
                               text[end] == 'E' || text[end] == '+' || text[end] == '-')) {
    is_integer = false;
    ++end;
  }
  return {end, is_integer && n_digits > 20};
}

// Offset of the first byte that is no part of valid UTF-8. Prefixes of a valid text are valid up to
// a cut character, so a search by halves finds the place.
size_t FirstInvalidByte(std::string_view text) {
  size_t good = 0;
  size_t bad = text.size();
  while (bad - good > 8) {
    const size_t middle = good + (bad - good) / 2;
    size_t cut = middle;  // move back to the start of a character
    while (cut > good && (static_cast<uint8_t>(text[cut]) & 0xc0) == 0x80) --cut;
    if (cut == good) break;
    (simdjson::validate_utf8(text.data() + good, cut - good) ? good : bad) = cut;
  }
  return good;
}

}  // namespace

Result<std::unique_ptr<JsonDocument>> ParseJson(std::string_view text, std::string_view origin) {
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    return CorruptData(StrCat(Printable(origin, 400), ": the JSON is no valid UTF-8 near offset ",
                              FirstInvalidByte(text)));
  }
  auto document = std::make_unique<JsonDocument>();
  simdjson::error_code error = document->parser.allocate(text.size() + 1, kMaxJsonDepth);
  if (!error) error = document->parser.parse(text.data(), text.size()).get(document->root);
  if (error == simdjson::DEPTH_ERROR) {
    return CorruptData(StrCat(Printable(origin, 400), ": the JSON is nested deeper than ",
                              kMaxJsonDepth, " levels"));
  }
  if (error == simdjson::NUMBER_ERROR) {
    return CorruptData(
        StrCat(Printable(origin, 400),
               ": the JSON holds something that is no number, or an integer beyond 64 bits"));
  }
  if (error) {
    return CorruptData(
        StrCat(Printable(origin, 400), ": no valid JSON: ", simdjson::error_message(error)));
  }
  return document;
}

std::string ReplacePythonNumbers(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"') {
      const size_t end = StringEnd(text, i);
      out.append(text.substr(i, end - i));
      i = end;
      continue;
    }
    const PythonNumber* found = nullptr;
    if (c == '-' || c == 'I' || c == 'N') {
      for (const PythonNumber& number : kPythonNumbers) {
        if (text.substr(i).starts_with(number.literal)) {
          found = &number;
          break;
        }
      }
    }
    if (found != nullptr) {
      out.append(found->quoted);
      i += found->literal.size();
    } else if (c == '-' || IsDigit(c)) {
      const NumberToken token = ScanNumber(text, i);
      out.append(text.substr(i, token.end - i));
      if (token.is_huge_integer) out.append(".0");
      i = token.end;
    } else {
      out.push_back(c);
      ++i;
    }
  }
  return out;
}

std::optional<double> ParsePythonNumber(std::string_view text) {
  for (const PythonNumber& number : kPythonNumbers) {
    if (number.text == text) return number.value;
  }
  return std::nullopt;
}

std::string RestorePythonNumbers(std::string text) {
  for (const PythonNumber& number : kPythonNumbers) {
    for (size_t at = text.find(number.quoted); at != std::string::npos;
         at = text.find(number.quoted, at)) {
      text.replace(at, number.quoted.size(), number.literal);
      at += number.literal.size();
    }
  }
  return text;
}

void AppendJsonString(std::string& json, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  json += '"';
  for (const char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      json += "\\u00";
      json += kHex[byte >> 4];
      json += kHex[byte & 15];
    } else {
      json += c;
    }
  }
  json += '"';
}

}  // namespace colibri
