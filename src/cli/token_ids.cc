#include "cli/token_ids.h"

#include <limits>
#include <optional>

#include "base/strings.h"

namespace colibri::cli {

Result<std::vector<int32_t>> ParseTokenIds(std::string_view text) {
  constexpr std::string_view kSeparators = " ,\t\r\n";
  std::vector<int32_t> ids;
  size_t begin = text.find_first_not_of(kSeparators);
  while (begin != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::optional<int64_t> id = ParseInt(word);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument(StrCat("\"", Printable(word), "\" is no token id (number ", ids.size(),
                                    " of the list); ids are numbers from 0"));
    }
    ids.push_back(static_cast<int32_t>(*id));
    begin = text.find_first_not_of(kSeparators, end);
  }
  return ids;
}

std::string FormatTokenIds(std::span<const int32_t> ids) {
  std::string out;
  for (const int32_t id : ids) {
    if (!out.empty()) out += ' ';
    internal::AppendPiece(out, id);
  }
  return out;
}

std::vector<int32_t> SyntheticIds(int32_t n, int32_t vocab_size, uint64_t seed) {
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(n));
  // The splitmix64 sequence (Steele, Lea and Flood, OOPSLA 2014).
  uint64_t state = seed;
  for (int32_t i = 0; i < n; ++i) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    ids.push_back(static_cast<int32_t>(z % static_cast<uint64_t>(vocab_size)));
  }
  return ids;
}

}  // namespace colibri::cli
