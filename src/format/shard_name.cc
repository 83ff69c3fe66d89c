#include "format/shard_name.h"

#include "base/strings.h"

namespace colibri {
namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kOf = "-of-";

std::optional<uint32_t> ParseNumber(std::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

std::string Padded(uint32_t number) {
  const std::string digits = StrCat(number);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

}  // namespace

std::string ShardName::Sibling(uint32_t other_number) const {
  return StrCat(prefix, "-", Padded(other_number), kOf, Padded(count), suffix);
}

std::optional<ShardName> ParseShardName(std::string_view name, std::string_view suffix) {
  const size_t tail = 1 + kDigits + kOf.size() + kDigits + suffix.size();
  if (name.size() < tail || !name.ends_with(suffix)) return std::nullopt;
  const std::string_view prefix = name.substr(0, name.size() - tail);
  const std::string_view rest = name.substr(prefix.size());
  const auto number = ParseNumber(rest.substr(1, kDigits));
  const auto count = ParseNumber(rest.substr(1 + kDigits + kOf.size(), kDigits));
  if (rest[0] != '-' || rest.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  return ShardName{std::string(prefix), *number, *count, std::string(suffix)};
}

}  // namespace colibri
