#include "format/hf_config.h"

#include <set>

#include "base/strings.h"
#include "format/json.h"

namespace colibri {
namespace {

namespace dom = simdjson::dom;

enum class ScalarKind { kOther, kBool, kInt, kDouble, kString };

// A scalar as a value; kOther for null, lists, objects.
ScalarKind ReadScalar(dom::element element, MetaValue& out) {
  switch (element.type()) {
    case dom::element_type::BOOL:
      out = bool{element.get_bool().value_unsafe()};
      return ScalarKind::kBool;
    case dom::element_type::INT64:
      out = int64_t{element.get_int64().value_unsafe()};
      return ScalarKind::kInt;
    case dom::element_type::DOUBLE:
      out = double{element.get_double().value_unsafe()};
      return ScalarKind::kDouble;
    case dom::element_type::STRING: {
      const std::string_view text = element.get_string().value_unsafe();
      if (const auto number = ParsePythonNumber(text)) {
        out = *number;
        return ScalarKind::kDouble;
      }
      out = std::string(text);
      return ScalarKind::kString;
    }
    default:
      return ScalarKind::kOther;
  }
}

template <typename T>
MetaValue ListOf(std::vector<MetaValue>& values) {
  std::vector<T> list;
  list.reserve(values.size());
  for (MetaValue& value : values) {
    if constexpr (std::is_same_v<T, double>) {
      const auto* whole = std::get_if<int64_t>(&value);
      list.push_back(whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value));
    } else {
      list.push_back(std::move(std::get<T>(value)));
    }
  }
  return list;
}

MetaValue ReadArray(dom::array array) {
  std::vector<MetaValue> values;
  bool all[5] = {true, true, true, true, true};  // by ScalarKind; ints count as doubles too
  for (const dom::element element : array) {
    MetaValue value;
    const ScalarKind kind = ReadScalar(element, value);
    for (const ScalarKind other :
         {ScalarKind::kBool, ScalarKind::kInt, ScalarKind::kDouble, ScalarKind::kString}) {
      const bool fits = kind == other || (other == ScalarKind::kDouble && kind == ScalarKind::kInt);
      all[static_cast<size_t>(other)] &= fits;
    }
    values.push_back(std::move(value));
  }
  if (all[static_cast<size_t>(ScalarKind::kInt)]) return ListOf<int64_t>(values);
  if (all[static_cast<size_t>(ScalarKind::kDouble)]) return ListOf<double>(values);
  if (all[static_cast<size_t>(ScalarKind::kBool)]) return ListOf<bool>(values);
  if (all[static_cast<size_t>(ScalarKind::kString)]) return ListOf<std::string>(values);
  return RawJson{RestorePythonNumbers(simdjson::to_string(array))};
}

class Flattener {
 public:
  explicit Flattener(std::string origin) : out_(std::move(origin)) {}

  // Calls itself once for each level of objects; the parser has refused more than kMaxJsonDepth.
  Status AddObject(const std::string& prefix, dom::object object) {
    std::set<std::string_view> seen;
    for (const dom::key_value_pair field : object) {
      std::string key = prefix + std::string(field.key);
      if (!seen.insert(field.key).second) return Twice(key);
      if (key.size() > kMaxConfigKeyBytes) {
        return ResourceExhausted(StrCat(Printable(out_.origin(), 400), ": key ", Printable(key),
                                        " is longer than ", kMaxConfigKeyBytes, " bytes"));
      }
      COLIBRI_RETURN_IF_ERROR(AddField(std::move(key), field.value));
    }
    return {};
  }

  Metadata Take() { return std::move(out_); }

 private:
  Status AddField(std::string key, dom::element element) {
    dom::object object;
    if (!element.get(object) && object.begin() != object.end()) {
      return AddObject(key + ".", object);
    }
    MetaValue value;
    dom::array array;
    if (element.is_object()) {
      value = RawJson{"{}"};
    } else if (!element.get(array)) {
      value = ReadArray(array);
    } else if (element.type() == dom::element_type::UINT64) {
      return CorruptData(StrCat(Printable(out_.origin(), 400), ": key ", Printable(key),
                                " is above 2^63-1, the largest integer read"));
    } else {
      ReadScalar(element, value);
    }
    // {"a.b": 1, "a": {"b": 2}} would meet here.
    if (out_.Find(key) != nullptr) return Twice(key);
    if (out_.values().size() == kMaxConfigKeys) {
      return ResourceExhausted(
          StrCat(Printable(out_.origin(), 400), ": has more than ", kMaxConfigKeys, " keys"));
    }
    out_.Set(std::move(key), std::move(value));
    return {};
  }

  Status Twice(std::string_view key) const {
    return CorruptData(
        StrCat(Printable(out_.origin(), 400), ": key ", Printable(key), " stands there twice"));
  }

  Metadata out_;
};

}  // namespace

Result<Metadata> FlattenConfig(std::string_view json, std::string origin) {
  COLIBRI_ASSIGN_OR_RETURN(const auto document, ParseJson(ReplacePythonNumbers(json), origin));
  dom::object root;
  if (document->root.get(root)) {
    return CorruptData(StrCat(Printable(origin, 400), ": is no JSON object"));
  }
  Flattener flattener(std::move(origin));
  COLIBRI_RETURN_IF_ERROR(flattener.AddObject("", root));
  return flattener.Take();
}

}  // namespace colibri
