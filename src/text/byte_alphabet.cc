#include "text/byte_alphabet.h"

#include "text/unicode.h"

namespace colibri {
namespace {

constexpr uint32_t kFirstSubstitute = 256;
constexpr uint32_t kAlphabetEnd = 324;  // 68 bytes are substituted

struct Alphabet {
  std::array<uint32_t, 256> forward{};
  std::array<int16_t, kAlphabetEnd> backward{};
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& entry : alphabet.backward) entry = -1;
  uint32_t next = kFirstSubstitute;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    const uint32_t cp = printable ? byte : next++;
    alphabet.forward[byte] = cp;
    alphabet.backward[cp] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

uint32_t ByteToCodePoint(uint8_t byte) {
  return kAlphabet.forward[byte];
}

void AppendByteLevel(std::string_view bytes, std::string& out) {
  for (const char c : bytes) AppendUtf8(kAlphabet.forward[static_cast<uint8_t>(c)], out);
}

std::optional<std::string> FromByteLevel(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const uint32_t cp = NextCodePoint(text, pos);
    if (cp >= kAlphabetEnd || kAlphabet.backward[cp] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.backward[cp]));
  }
  return bytes;
}

}  // namespace colibri
