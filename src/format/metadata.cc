#include "format/metadata.h"

#include <cmath>

#include "base/strings.h"

namespace colibri {
namespace {

std::string_view KindName(const MetaValue& value) {
  struct Visitor {
    std::string_view operator()(std::monostate) const { return "null"; }
    std::string_view operator()(bool) const { return "a boolean"; }
    std::string_view operator()(int64_t) const { return "an integer"; }
    std::string_view operator()(double) const { return "a number"; }
    std::string_view operator()(const std::string&) const { return "a string"; }
    std::string_view operator()(const std::vector<bool>&) const { return "a list of booleans"; }
    std::string_view operator()(const std::vector<int64_t>&) const { return "a list of integers"; }
    std::string_view operator()(const std::vector<double>&) const { return "a list of numbers"; }
    std::string_view operator()(const std::vector<std::string>&) const {
      return "a list of strings";
    }
    std::string_view operator()(const RawJson& json) const {
      return json.text.starts_with("{") ? "an object" : "a list of mixed values";
    }
  };
  return std::visit(Visitor{}, value);
}

// The integer that a number stands for, if it is whole and fits.
std::optional<int64_t> AsInt(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63) || value != std::trunc(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> AsInt(const MetaValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  if (const auto* d = std::get_if<double>(&value)) return AsInt(*d);
  return std::nullopt;
}

std::optional<double> AsDouble(const MetaValue& value) {
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  return std::nullopt;
}

std::optional<bool> AsBool(const MetaValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b;
  return std::nullopt;
}

std::optional<std::string> AsString(const MetaValue& value) {
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return std::nullopt;
}

// A list without elements has lost its kind: it reads as a list of any.
bool IsEmptyList(const MetaValue& value) {
  struct Visitor {
    bool operator()(const std::vector<bool>& v) const { return v.empty(); }
    bool operator()(const std::vector<int64_t>& v) const { return v.empty(); }
    bool operator()(const std::vector<double>& v) const { return v.empty(); }
    bool operator()(const std::vector<std::string>& v) const { return v.empty(); }
    bool operator()(std::monostate) const { return false; }
    bool operator()(bool) const { return false; }
    bool operator()(int64_t) const { return false; }
    bool operator()(double) const { return false; }
    bool operator()(const std::string&) const { return false; }
    bool operator()(const RawJson&) const { return false; }
  };
  return std::visit(Visitor{}, value);
}

std::optional<std::vector<int64_t>> AsInts(const MetaValue& value) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return *list;
  if (IsEmptyList(value)) return std::vector<int64_t>();
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    std::vector<int64_t> out;
    for (const double d : *list) {
      const auto i = AsInt(d);
      if (!i) return std::nullopt;
      out.push_back(*i);
    }
    return out;
  }
  if (const auto i = AsInt(value)) return std::vector<int64_t>{*i};
  return std::nullopt;
}

std::optional<std::vector<double>> AsDoubles(const MetaValue& value) {
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return *list;
  if (IsEmptyList(value)) return std::vector<double>();
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    return std::vector<double>(list->begin(), list->end());
  }
  if (const auto d = AsDouble(value)) return std::vector<double>{*d};
  return std::nullopt;
}

std::optional<std::vector<std::string>> AsStrings(const MetaValue& value) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
  if (IsEmptyList(value)) return std::vector<std::string>();
  if (const auto s = AsString(value)) return std::vector<std::string>{*s};
  return std::nullopt;
}

std::optional<std::vector<bool>> AsBools(const MetaValue& value) {
  if (const auto* list = std::get_if<std::vector<bool>>(&value)) return *list;
  if (IsEmptyList(value)) return std::vector<bool>();
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    std::vector<bool> out;
    for (const int64_t i : *list) {
      if (i != 0 && i != 1) return std::nullopt;
      out.push_back(i == 1);
    }
    return out;
  }
  if (const auto b = AsBool(value)) return std::vector<bool>{*b};
  return std::nullopt;
}

template <typename T>
Result<std::optional<T>> Get(const Metadata& metadata, std::string_view key,
                             std::optional<T> (*convert)(const MetaValue&),
                             std::string_view wanted) {
  const MetaValue* value = metadata.Find(key);
  if (value == nullptr || std::holds_alternative<std::monostate>(*value)) return std::optional<T>();
  std::optional<T> converted = convert(*value);
  if (!converted) {
    return InvalidArgument(StrCat(metadata.origin(), ": key ", Printable(key), " is ",
                                  KindName(*value), "; it should be ", wanted));
  }
  return converted;
}

}  // namespace

bool Metadata::Has(std::string_view key) const {
  const MetaValue* value = Find(key);
  return value != nullptr && !std::holds_alternative<std::monostate>(*value);
}

bool Metadata::HasPrefix(std::string_view prefix) const {
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix);
       ++it) {
    if (!std::holds_alternative<std::monostate>(it->second)) return true;
  }
  return false;
}

const MetaValue* Metadata::Find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

Result<std::optional<int64_t>> Metadata::GetInt(std::string_view key) const {
  return Get<int64_t>(*this, key, AsInt, "an integer");
}
Result<std::optional<double>> Metadata::GetDouble(std::string_view key) const {
  return Get<double>(*this, key, AsDouble, "a number");
}
Result<std::optional<bool>> Metadata::GetBool(std::string_view key) const {
  return Get<bool>(*this, key, AsBool, "a boolean");
}
Result<std::optional<std::string>> Metadata::GetString(std::string_view key) const {
  return Get<std::string>(*this, key, AsString, "a string");
}
Result<std::optional<std::vector<int64_t>>> Metadata::GetInts(std::string_view key) const {
  return Get<std::vector<int64_t>>(*this, key, AsInts, "a list of integers");
}
Result<std::optional<std::vector<double>>> Metadata::GetDoubles(std::string_view key) const {
  return Get<std::vector<double>>(*this, key, AsDoubles, "a list of numbers");
}
Result<std::optional<std::vector<std::string>>> Metadata::GetStrings(std::string_view key) const {
  return Get<std::vector<std::string>>(*this, key, AsStrings, "a list of strings");
}
Result<std::optional<std::vector<bool>>> Metadata::GetBools(std::string_view key) const {
  return Get<std::vector<bool>>(*this, key, AsBools, "a list of booleans");
}

}  // namespace colibri
