// format/file_tensor_source.h - the TensorSource that every reader here builds. Internal to
// format/.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/tensor_source.h"
#include "platform/file.h"

namespace colibri {

class FileTensorSource final : public TensorSource {
 public:
  // `tensors` have passed their reader's checks of ranges and shapes; here names must turn out
  // unique over all files, or the result is CorruptData that names tensor and both files.
  static Result<std::unique_ptr<TensorSource>> Create(
      std::string format, std::vector<std::unique_ptr<RandomAccessFile>> files,
      std::vector<TensorInfo> tensors);

  std::string_view format() const override { return format_; }
  const std::vector<std::string>& files() const override { return paths_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* Find(std::string_view name) const override;
  Status Read(const TensorInfo& tensor, uint64_t offset, std::span<uint8_t> out) const override;

 private:
  FileTensorSource() = default;

  std::string format_;
  std::vector<std::unique_ptr<RandomAccessFile>> files_;
  std::vector<std::string> paths_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // views into tensors_
};

// The product of a shape, or nothing when it overflows. An empty shape is a scalar.
std::optional<uint64_t> ElementCount(const std::vector<uint64_t>& shape);

}  // namespace colibri
