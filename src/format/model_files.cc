#include "format/model_files.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "format/gguf.h"
#include "format/hf_config.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "format/shard_name.h"

namespace colibri {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kGgufSuffix = ".gguf";
constexpr uint64_t kMaxTokenizerBytes = 512 << 20;
constexpr uint64_t kMaxTemplateBytes = 16 << 20;

// The text of a file that may be absent; empty then.
Result<std::string> ReadOptional(const FileSystem& files, const std::string& path,
                                 uint64_t max_bytes) {
  if (files.GetKind(path) != FileSystem::Kind::kFile) return std::string();
  return ReadWholeFile(files, path, max_bytes);
}

// The chat_template of a tokenizer_config.json or chat_template.json: a string, or a list of
// {name, template} of which the one named "default" counts. Empty when there is none.
Result<std::string> FindTemplate(std::string_view json, const std::string& path) {
  if (json.empty()) return std::string();
  COLIBRI_ASSIGN_OR_RETURN(const auto document, ParseJson(ReplacePythonNumbers(json), path));
  dom::element found;
  if (document->root["chat_template"].get(found) || found.is_null()) return std::string();
  std::string_view text;
  if (!found.get(text)) return std::string(text);
  dom::array list;
  if (found.get(list)) {
    return CorruptData(
        StrCat(Printable(path, 400), ": chat_template is neither a string nor a list"));
  }
  for (const dom::element entry : list) {
    std::string_view name;
    if (entry["name"].get(name) || entry["template"].get(text)) {
      return CorruptData(StrCat(Printable(path, 400),
                                ": chat_template's entries should have a name and a template"));
    }
    if (name == "default") return std::string(text);
  }
  return std::string();
}

Result<std::string> FindChatTemplate(const FileSystem& files, const std::string& folder,
                                     const std::string& tokenizer_config_json) {
  COLIBRI_ASSIGN_OR_RETURN(
      std::string text,
      ReadOptional(files, JoinPath(folder, "chat_template.jinja"), kMaxTemplateBytes));
  if (!text.empty()) return text;
  COLIBRI_ASSIGN_OR_RETURN(
      text, FindTemplate(tokenizer_config_json, JoinPath(folder, "tokenizer_config.json")));
  if (!text.empty()) return text;
  const std::string path = JoinPath(folder, "chat_template.json");
  COLIBRI_ASSIGN_OR_RETURN(const std::string json, ReadOptional(files, path, kMaxConfigBytes));
  return FindTemplate(json, path);
}

Result<Metadata> ReadConfig(const FileSystem& files, const std::string& path) {
  COLIBRI_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kMaxConfigBytes));
  return FlattenConfig(text, path);
}

Result<ModelFiles> OpenHuggingFace(const FileSystem& files, const std::string& folder,
                                   const Log& log) {
  ModelFiles model;
  model.format = ModelFormat::kHuggingFace;
  model.path = folder;
  COLIBRI_ASSIGN_OR_RETURN(model.config, ReadConfig(files, JoinPath(folder, "config.json")));
  const std::string generation_path = JoinPath(folder, "generation_config.json");
  if (files.GetKind(generation_path) == FileSystem::Kind::kFile) {
    COLIBRI_ASSIGN_OR_RETURN(model.generation_config, ReadConfig(files, generation_path));
  }
  COLIBRI_ASSIGN_OR_RETURN(model.tensors, OpenSafetensorsFolder(files, folder, log));
  COLIBRI_ASSIGN_OR_RETURN(
      model.tokenizer_json,
      ReadOptional(files, JoinPath(folder, "tokenizer.json"), kMaxTokenizerBytes));
  COLIBRI_ASSIGN_OR_RETURN(
      model.tokenizer_config_json,
      ReadOptional(files, JoinPath(folder, "tokenizer_config.json"), kMaxConfigBytes));
  COLIBRI_ASSIGN_OR_RETURN(model.chat_template,
                           FindChatTemplate(files, folder, model.tokenizer_config_json));
  return model;
}

Result<ModelFiles> OpenGgufModel(const FileSystem& files, const std::string& path,
                                 const std::string& named) {
  COLIBRI_ASSIGN_OR_RETURN(GgufModel gguf, OpenGguf(files, path));
  ModelFiles model;
  model.format = ModelFormat::kGguf;
  model.path = named;
  model.config = std::move(gguf.metadata);
  model.tensors = std::move(gguf.tensors);
  COLIBRI_ASSIGN_OR_RETURN(const auto chat_template,
                           model.config.GetString("tokenizer.chat_template"));
  model.chat_template = chat_template.value_or("");
  return model;
}

Result<ModelFiles> OpenFile(const FileSystem& files, const std::string& path) {
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return InvalidArgument(StrCat(
        Printable(path, 400), ": for a Hugging Face model name its folder, not one file of it"));
  }
  COLIBRI_ASSIGN_OR_RETURN(const auto file, files.Open(path));
  COLIBRI_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(*file));
  if (!is_gguf) {
    return CorruptData(
        StrCat(Printable(path, 400), ": is no GGUF file: it does not start with \"GGUF\""));
  }
  return OpenGgufModel(files, path, path);
}

// The GGUF models among the names: a split set counts once, by its first part.
std::vector<std::string> GgufModels(const std::vector<std::string>& names) {
  std::set<std::string> models;
  for (const std::string& name : names) {
    if (!name.ends_with(kGgufSuffix)) continue;
    const auto shard = ParseShardName(name, kGgufSuffix);
    models.insert(shard ? shard->Sibling(1) : name);
  }
  return {models.begin(), models.end()};
}

bool HasSuffix(const std::vector<std::string>& names, std::string_view suffix) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.ends_with(suffix); });
}

Result<ModelFiles> OpenFolder(const FileSystem& files, const std::string& folder, const Log& log) {
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.ListFiles(folder));
  const bool has_config = std::binary_search(names.begin(), names.end(), "config.json");
  const std::vector<std::string> ggufs = GgufModels(names);
  if (has_config && (HasSuffix(names, ".safetensors") ||
                     HasSuffix(names, ".safetensors.index.json") || ggufs.empty())) {
    if (HasSuffix(names, ".bin") && !HasSuffix(names, ".safetensors")) {
      return Unsupported(StrCat(Printable(folder, 400),
                                ": its weights are .bin files; convert them to safetensors"));
    }
    return OpenHuggingFace(files, folder, log);
  }
  if (ggufs.size() == 1) return OpenGgufModel(files, JoinPath(folder, ggufs.front()), folder);
  if (ggufs.size() > 1) {
    return InvalidArgument(StrCat(Printable(folder, 400), ": holds ", ggufs.size(),
                                  " GGUF models; name one of them: ", StrJoin(ggufs, ", ")));
  }
  return NotFound(StrCat(Printable(folder, 400),
                         ": holds neither a config.json with safetensors nor a GGUF file"));
}

}  // namespace

Result<ModelFiles> OpenModelFiles(const FileSystem& files, const std::string& path,
                                  const Log& log) {
  switch (files.GetKind(path)) {
    case FileSystem::Kind::kFolder:
      return OpenFolder(files, path, log);
    case FileSystem::Kind::kFile:
      return OpenFile(files, path);
    case FileSystem::Kind::kMissing:
      break;
  }
  // A device, a loop of links or a folder that may not be entered counts as missing; what opening
  // it says is the better reason.
  if (const auto file = files.Open(path);
      !file.ok() && file.status().code() != StatusCode::kNotFound) {
    return file.status();
  }
  return NotFound(StrCat(Printable(path, 400),
                         ": no such file or folder; name a .gguf file or a Hugging Face folder"));
}

Result<ModelFiles> OpenModelFiles(const std::string& path, const Log& log) {
  return OpenModelFiles(LocalFileSystem(), path, log);
}

}  // namespace colibri
