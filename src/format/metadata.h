// format/metadata.h - a model's configuration as flat keys, whether it came from config.json or
// from GGUF.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace colibri {

// One value. JSON null is monostate; JSON arrays whose elements are not all of one scalar kind are
// kept as raw JSON text in RawJson.
struct RawJson {
  std::string text;
};
using MetaValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<bool>,
                 std::vector<int64_t>, std::vector<double>, std::vector<std::string>, RawJson>;

// Keys are flat: "rope_scaling.factor" for a nested JSON object, "qwen3moe.block_count" as GGUF
// spells it. An empty JSON object is present as RawJson "{}". Unsigned values above 2^63-1 are
// refused by the readers.
class Metadata {
 public:
  // `origin` names the file in errors.
  explicit Metadata(std::string origin = {}) : origin_(std::move(origin)) {}

  const std::string& origin() const { return origin_; }
  void Set(std::string key, MetaValue value) { values_[std::move(key)] = std::move(value); }
  const std::map<std::string, MetaValue, std::less<>>& values() const { return values_; }

  // Present and not null.
  bool Has(std::string_view key) const;
  // Any key that starts with `prefix` and is not null.
  bool HasPrefix(std::string_view prefix) const;
  const MetaValue* Find(std::string_view key) const;

  // The value when present; nothing when absent or null; an error that names file and key when it
  // has another type. An integral double reads as an integer, an integer as a double.
  Result<std::optional<int64_t>> GetInt(std::string_view key) const;
  Result<std::optional<double>> GetDouble(std::string_view key) const;
  Result<std::optional<bool>> GetBool(std::string_view key) const;
  Result<std::optional<std::string>> GetString(std::string_view key) const;
  // A scalar integer reads as a list of one (eos_token_id is both in the wild).
  Result<std::optional<std::vector<int64_t>>> GetInts(std::string_view key) const;
  Result<std::optional<std::vector<double>>> GetDoubles(std::string_view key) const;
  Result<std::optional<std::vector<std::string>>> GetStrings(std::string_view key) const;
  // Booleans, or integers that are 0 or 1.
  Result<std::optional<std::vector<bool>>> GetBools(std::string_view key) const;

 private:
  std::string origin_;
  std::map<std::string, MetaValue, std::less<>> values_;
};

}  // namespace colibri
