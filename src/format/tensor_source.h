// format/tensor_source.h - the tensors of a model, whatever files hold them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace colibri {

// Where one tensor lies. Row-major, slowest dimension first (GGUF's reversed order is turned round
// by its reader).
struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;
  uint32_t file;    // index into TensorSource::files()
  uint64_t offset;  // bytes from the start of that file
  uint64_t
      n_bytes;  // all of it; checked against the file's size and the shape when the file was opened
};

// Safetensors (single or sharded) or GGUF (single or split). Everything was checked at open: every
// range lies within its file, names are unique, sizes agree with shapes. Immutable afterwards: safe
// from many threads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // "safetensors" or "gguf v3".
  virtual std::string_view format() const = 0;
  virtual const std::vector<std::string>& files() const = 0;
  // In file order.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // Null when there is none. O(1).
  virtual const TensorInfo* Find(std::string_view name) const = 0;

  // Reads out.size() bytes from byte `offset` of the tensor. IoError names file, offset and errno;
  // a range outside the tensor is a bug. Large reads go at the disk's speed when several threads
  // each read their own piece.
  virtual Status Read(const TensorInfo& tensor, uint64_t offset, std::span<uint8_t> out) const = 0;
};

}  // namespace colibri
