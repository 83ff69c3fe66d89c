#include "model/config_reader.h"

#include <cmath>

#include "base/strings.h"

namespace colibri {

ConfigReader::ConfigReader(const ArchSpec& spec, const ModelFiles& files)
    : spec_(spec), files_(files) {
  if (!gguf()) return;
  const Result<std::optional<std::string>> architecture =
      files.config.GetString("general.architecture");
  if (architecture.ok() && *architecture) prefix_ = **architecture + ".";
}

const KeyRow* ConfigReader::FindRow(Field field) const {
  for (const std::vector<KeyRow>* rows : {&spec_.keys, &CommonKeys()}) {
    for (const KeyRow& row : *rows) {
      if (row.field == field) return &row;
    }
  }
  return nullptr;
}

std::string ConfigReader::GgufKey(std::string_view key) const {
  return StrCat(prefix_, key);
}

std::string ConfigReader::PresentKey(const KeyRow& row) const {
  if (gguf()) {
    if (row.gguf.empty()) return {};
    std::string key = GgufKey(row.gguf);
    return metadata().Has(key) ? key : std::string();
  }
  for (const std::string_view key : row.hf) {
    if (metadata().Has(key)) return std::string(key);
  }
  return {};
}

bool ConfigReader::Has(Field field) const {
  const KeyRow* row = FindRow(field);
  return row != nullptr && !PresentKey(*row).empty();
}

Result<double> ConfigReader::Fallback(const KeyRow& row) const {
  if (!gguf()) {
    for (const std::string_view key : row.hf) {
      const MetaValue* value = metadata().Find(key);
      if (value != nullptr && NullIsZero(row.field)) return 0.0;  // it is null
    }
    for (const FieldDefault& entry : spec_.hf_defaults) {
      if (entry.field == row.field) return entry.value;
    }
  }
  const std::optional<double>& fallback =
      gguf() && row.gguf_fallback ? row.gguf_fallback : row.fallback;
  if (fallback) return *fallback;
  std::string wanted = gguf() ? GgufKey(row.gguf) : std::string();
  if (!gguf()) {
    for (const std::string_view name : row.hf) wanted += StrCat(wanted.empty() ? "" : " or ", name);
  }
  return NotFound(StrCat(metadata().origin(), ": family ", spec_.name, " needs the key ", wanted));
}

Result<double> ConfigReader::Number(Field field) const {
  const KeyRow* row = FindRow(field);
  COLIBRI_CHECK(row != nullptr);
  const std::string key = PresentKey(*row);
  if (key.empty()) return Fallback(*row);
  // Some files hold a list with an entry a layer; where all agree it is one number.
  const MetaValue* value = metadata().Find(key);
  if (std::holds_alternative<std::vector<int64_t>>(*value)) {
    const auto& list = std::get<std::vector<int64_t>>(*value);
    for (const int64_t entry : list) {
      if (entry != list.front()) {
        return Unsupported(StrCat(metadata().origin(), ": ", key,
                                  " differs among layers, which family ", spec_.name,
                                  " has no rule for"));
      }
    }
    if (!list.empty()) return static_cast<double>(list.front());
  }
  COLIBRI_ASSIGN_OR_RETURN(const std::optional<double> number, metadata().GetDouble(key));
  if (!number || !std::isfinite(*number))
    return InvalidArgument(StrCat(metadata().origin(), ": ", key, " must be a finite number"));
  return *number;
}

Result<int32_t> ConfigReader::CheckRange(Field field, double number, int64_t min,
                                         int64_t max) const {
  if (number != std::floor(number) || number < static_cast<double>(min) ||
      number > static_cast<double>(max)) {
    const std::string key = PresentKey(*FindRow(field));
    // Whole numbers as files write them, without an exponent.
    const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
    const std::string shown = whole ? StrCat(static_cast<int64_t>(number)) : StrCat(number);
    return InvalidArgument(StrCat(metadata().origin(), ": ", key.empty() ? "a default" : key,
                                  " is ", shown, ", must be a whole number from ", min, " to ",
                                  max));
  }
  return static_cast<int32_t>(number);
}

Result<int32_t> ConfigReader::Integer(Field field, int64_t min, int64_t max) const {
  COLIBRI_ASSIGN_OR_RETURN(const double number, Number(field));
  return CheckRange(field, number, min, max);
}

Result<int32_t> ConfigReader::LayerInteger(Field field, int32_t layer, int64_t min,
                                           int64_t max) const {
  const KeyRow* row = FindRow(field);
  COLIBRI_CHECK(row != nullptr);
  const std::string key = PresentKey(*row);
  const MetaValue* value = key.empty() ? nullptr : metadata().Find(key);
  const auto* list = value != nullptr ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  if (list == nullptr || list->size() == 1) return Integer(field, min, max);
  if (static_cast<size_t>(layer) >= list->size()) {
    return InvalidArgument(StrCat(metadata().origin(), ": ", key, " is a list of ", list->size(),
                                  ", must have an entry for layer ", layer));
  }
  return CheckRange(field, static_cast<double>((*list)[static_cast<size_t>(layer)]), min, max);
}

Result<bool> ConfigReader::Flag(Field field) const {
  const KeyRow* row = FindRow(field);
  COLIBRI_CHECK(row != nullptr);
  const std::string key = PresentKey(*row);
  if (!key.empty() && std::holds_alternative<bool>(*metadata().Find(key)))
    return std::get<bool>(*metadata().Find(key));
  COLIBRI_ASSIGN_OR_RETURN(const double number, Number(field));
  if (number != 0 && number != 1)
    return InvalidArgument(
        StrCat(metadata().origin(), ": ", key, " must be true or false, is ", number));
  return number == 1;
}

Result<std::string> ConfigReader::Text(const std::vector<std::string_view>& keys,
                                       std::string_view fallback) const {
  if (!gguf()) {
    for (const std::string_view key : keys) {
      COLIBRI_ASSIGN_OR_RETURN(std::optional<std::string> text, metadata().GetString(key));
      if (text) return std::move(*text);
    }
  }
  return std::string(fallback);
}

std::string ConfigReader::NameOf(Role role, int32_t layer, int32_t expert) const {
  const std::string_view pattern = TensorName(spec_, role, gguf());
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i, 3) == "{l}") {
      name += std::to_string(layer);
      i += 2;
    } else if (pattern.substr(i, 3) == "{e}") {
      name += std::to_string(expert);
      i += 2;
    } else {
      name += pattern[i];
    }
  }
  return name;
}

const TensorInfo* ConfigReader::FindTensor(Role role, int32_t layer, int32_t expert) const {
  const std::string name = NameOf(role, layer, expert);
  return name.empty() ? nullptr : tensors().Find(name);
}

Status ConfigReader::UnknownValue(std::string_view key, std::string_view value,
                                  std::string_view expected) const {
  return Unsupported(StrCat(metadata().origin(), ": ", key, " is \"", Printable(value),
                            "\"; family ", spec_.name, " knows ", expected));
}

}  // namespace colibri
