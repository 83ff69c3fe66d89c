// format/shard_name.h - "name-00002-of-00005.gguf": how parts of a split model are called. Internal
// to format/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colibri {

struct ShardName {
  std::string prefix;  // "name"
  uint32_t number;     // 2, counted from 1
  uint32_t count;      // 5
  std::string suffix;  // ".gguf"

  // The name of another part.
  std::string Sibling(uint32_t other_number) const;
};

// Nothing when `name` is no part's name: five digits, "-of-", five digits, `suffix`.
std::optional<ShardName> ParseShardName(std::string_view name, std::string_view suffix);

}  // namespace colibri
