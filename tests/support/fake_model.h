// support/fake_model.h - a model's files without weights: a configuration as text and a table of
// tensors whose data is zero.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "format/hf_config.h"
#include "format/model_files.h"

namespace colibri::testing {

class FakeTensors : public TensorSource {
 public:
  FakeTensors() = default;
  // Bytes are counted for float32 whatever the type: nothing here reads them.
  void Add(std::string name, std::vector<uint64_t> shape, DType dtype = DType::kF32) {
    uint64_t n = sizeof(float);
    for (const uint64_t size : shape) n *= size;
    tensors_.push_back({std::move(name), dtype, std::move(shape), 0, 0, n});
  }
  void Remove(std::string_view name) {
    std::erase_if(tensors_, [&](const TensorInfo& tensor) { return tensor.name == name; });
  }

  std::string_view format() const override { return "safetensors"; }
  const std::vector<std::string>& files() const override { return files_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* Find(std::string_view name) const override {
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  Status Read(const TensorInfo&, uint64_t, std::span<uint8_t> out) const override {
    std::fill(out.begin(), out.end(), uint8_t{0});
    return Status();
  }

 private:
  std::vector<std::string> files_ = {"model.safetensors"};
  std::vector<TensorInfo> tensors_;
};

// The files of a Hugging Face folder with this config.json.
inline Result<ModelFiles> FakeFolder(std::string_view config_json, FakeTensors tensors = {}) {
  ModelFiles files = {
      ModelFormat::kHuggingFace, "folder", Metadata(), Metadata(), nullptr, "", "", ""};
  COLIBRI_ASSIGN_OR_RETURN(files.config, FlattenConfig(config_json, "config.json"));
  files.tensors = std::make_unique<FakeTensors>(std::move(tensors));
  return files;
}

}  // namespace colibri::testing
