// format/model_files.h - opens what a user names: a GGUF file (or the first of a split set) or a
// Hugging Face folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "format/metadata.h"
#include "format/tensor_source.h"
#include "platform/file.h"

namespace colibri {

enum class ModelFormat { kHuggingFace, kGguf };

// A model's files, opened and checked. Reads headers only; no tensor data.
struct ModelFiles {
  ModelFormat format;
  std::string path;            // as the user named it
  Metadata config;             // config.json flattened, or all GGUF metadata (of the first file)
  Metadata generation_config;  // generation_config.json; empty for GGUF or when absent
  std::unique_ptr<TensorSource> tensors;
  // Texts that lie beside the weights (Hugging Face); empty when absent.
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string chat_template;  // chat_template.jinja, else tokenizer_config's or
                              // chat_template.json's; GGUF tokenizer.chat_template
};

// `path`: a .gguf file (any part of a split set: its siblings are found), a folder with config.json
// and safetensors, or a folder that holds exactly one GGUF model. Fails with NotFound, IoError,
// CorruptData or Unsupported; the message names the file and what would be right.
Result<ModelFiles> OpenModelFiles(const std::string& path, const Log& log);
// The same on another file system.
Result<ModelFiles> OpenModelFiles(const FileSystem& files, const std::string& path, const Log& log);

}  // namespace colibri
