// text/json_reader.h - fields of a JSON object with errors that name them.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"

namespace colibri {

// A JSON object and the path that leads to it, for messages such as
// "model.vocab: expected an object". Looks into memory that the parser owns.
class JsonObject {
 public:
  using Element = simdjson::dom::element;

  static Result<JsonObject> From(Element element, std::string path) {
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS) {
      return CorruptData(StrCat(path.empty() ? "the document" : path, ": expected an object"));
    }
    return JsonObject(object, std::move(path));
  }

  const std::string& path() const { return path_; }
  simdjson::dom::object object() const { return object_; }
  std::string PathOf(std::string_view key) const {
    return path_.empty() ? std::string(key) : StrCat(path_, ".", key);
  }

  // The field, or nothing when it is absent or null.
  std::optional<Element> Find(std::string_view key) const {
    Element element;
    if (object_.at_key(key).get(element) != simdjson::SUCCESS || element.is_null()) {
      return std::nullopt;
    }
    return element;
  }
  Result<Element> Require(std::string_view key) const {
    const std::optional<Element> element = Find(key);
    if (!element) return CorruptData(StrCat(PathOf(key), ": missing"));
    return *element;
  }
  Result<std::string_view> RequireString(std::string_view key) const {
    COLIBRI_ASSIGN_OR_RETURN(const Element element, Require(key));
    std::string_view text;
    if (element.get(text) != simdjson::SUCCESS) {
      return CorruptData(StrCat(PathOf(key), ": expected a string"));
    }
    return text;
  }
  // Empty when the field is absent or null.
  Result<std::string_view> OptionalString(std::string_view key) const {
    if (!Find(key)) return std::string_view();
    return RequireString(key);
  }
  Result<bool> Bool(std::string_view key, bool when_absent) const {
    const std::optional<Element> element = Find(key);
    if (!element) return when_absent;
    bool value = false;
    if (element->get(value) != simdjson::SUCCESS) {
      return CorruptData(StrCat(PathOf(key), ": expected true or false"));
    }
    return value;
  }
  Result<uint64_t> Unsigned(std::string_view key, uint64_t when_absent) const {
    const std::optional<Element> element = Find(key);
    if (!element) return when_absent;
    uint64_t value = 0;
    if (element->get(value) != simdjson::SUCCESS) {
      return CorruptData(StrCat(PathOf(key), ": expected a whole number >= 0"));
    }
    return value;
  }
  Result<simdjson::dom::array> RequireArray(std::string_view key) const {
    COLIBRI_ASSIGN_OR_RETURN(const Element element, Require(key));
    simdjson::dom::array array;
    if (element.get(array) != simdjson::SUCCESS) {
      return CorruptData(StrCat(PathOf(key), ": expected an array"));
    }
    return array;
  }
  Result<JsonObject> RequireObject(std::string_view key) const {
    COLIBRI_ASSIGN_OR_RETURN(const Element element, Require(key));
    return From(element, PathOf(key));
  }

 private:
  JsonObject(simdjson::dom::object object, std::string path)
      : object_(object), path_(std::move(path)) {}

  simdjson::dom::object object_;
  std::string path_;
};

}  // namespace colibri
