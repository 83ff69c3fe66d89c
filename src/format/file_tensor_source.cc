#include "format/file_tensor_source.h"

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"

namespace colibri {

Result<std::unique_ptr<TensorSource>> FileTensorSource::Create(
    std::string format, std::vector<std::unique_ptr<RandomAccessFile>> files,
    std::vector<TensorInfo> tensors) {
  std::unique_ptr<FileTensorSource> source(new FileTensorSource);
  source->format_ = std::move(format);
  source->files_ = std::move(files);
  for (const auto& file : source->files_) source->paths_.push_back(file->path());
  source->tensors_ = std::move(tensors);
  source->by_name_.reserve(source->tensors_.size());
  for (size_t i = 0; i < source->tensors_.size(); ++i) {
    const TensorInfo& tensor = source->tensors_[i];
    const auto [it, is_new] = source->by_name_.emplace(tensor.name, i);
    if (!is_new) {
      const TensorInfo& other = source->tensors_[it->second];
      const std::string path = Printable(source->paths_[tensor.file], 400);
      const std::string where = other.file == tensor.file
                                    ? "in the same file"
                                    : StrCat("in ", Printable(source->paths_[other.file], 400));
      return CorruptData(StrCat(path, ": tensor ", Printable(tensor.name),
                                " is there again; the first is ", where, " at offset ",
                                other.offset, ", this one at offset ", tensor.offset));
    }
  }
  return std::unique_ptr<TensorSource>(std::move(source));
}

const TensorInfo* FileTensorSource::Find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

Status FileTensorSource::Read(const TensorInfo& tensor, uint64_t offset,
                              std::span<uint8_t> out) const {
  COLIBRI_CHECK(tensor.file < files_.size());
  COLIBRI_CHECK(offset <= tensor.n_bytes && out.size() <= tensor.n_bytes - offset);
  Status status = files_[tensor.file]->ReadAt(tensor.offset + offset, out);
  if (status.ok()) return status;
  return std::move(status).WithContext(StrCat("tensor ", Printable(tensor.name)));
}

std::optional<uint64_t> ElementCount(const std::vector<uint64_t>& shape) {
  uint64_t n = 1;
  for (const uint64_t dim : shape) {
    const auto product = CheckedMul(n, dim);
    if (!product) return std::nullopt;
    n = *product;
  }
  return n;
}

}  // namespace colibri
