// model/config_reader.h - looks fields up in a model's configuration, by a family's tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/model_files.h"
#include "model/arch_spec.h"

namespace colibri {

// Looks at a spec and a model's files, which must outlive it.
class ConfigReader {
 public:
  ConfigReader(const ArchSpec& spec, const ModelFiles& files);

  bool gguf() const { return files_.format == ModelFormat::kGguf; }
  const Metadata& metadata() const { return files_.config; }
  const TensorSource& tensors() const { return *files_.tensors; }
  const ArchSpec& spec() const { return spec_; }

  // A field's value; its default or fallback where the file has no such key. NotFound, naming the
  // keys that would do, when there is neither; InvalidArgument when the value is of another kind or
  // not finite.
  Result<double> Number(Field field) const;
  // A whole number between min and max.
  Result<int32_t> Integer(Field field, int64_t min, int64_t max) const;
  // The same for one layer, where a file may hold a list with an entry a layer.
  Result<int32_t> LayerInteger(Field field, int32_t layer, int64_t min, int64_t max) const;
  Result<bool> Flag(Field field) const;
  bool Has(Field field) const;

  // A text from config.json, the first key that is present; in GGUF, and when none is, `fallback`.
  Result<std::string> Text(const std::vector<std::string_view>& keys,
                           std::string_view fallback) const;
  // "<architecture>.<key>", as GGUF spells it.
  std::string GgufKey(std::string_view key) const;

  const TensorInfo* FindTensor(Role role, int32_t layer, int32_t expert = 0) const;
  bool HasTensor(Role role, int32_t layer, int32_t expert = 0) const {
    return FindTensor(role, layer, expert) != nullptr;
  }
  // The name of a role's tensor, with layer and expert filled in; empty when the family has none in
  // this format.
  std::string NameOf(Role role, int32_t layer, int32_t expert = 0) const;

  // The error for a value that this family does not know.
  Status UnknownValue(std::string_view key, std::string_view value,
                      std::string_view expected) const;

 private:
  const KeyRow* FindRow(Field field) const;
  // The key of the field that the file has, or empty.
  std::string PresentKey(const KeyRow& row) const;
  // What stands for a field that the file does not have.
  Result<double> Fallback(const KeyRow& row) const;
  Result<int32_t> CheckRange(Field field, double number, int64_t min, int64_t max) const;

  const ArchSpec& spec_;
  const ModelFiles& files_;
  std::string prefix_;  // GGUF: "qwen3moe."
};

}  // namespace colibri
