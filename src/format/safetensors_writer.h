// format/safetensors_writer.h - writes tensors to a safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace colibri {

struct TensorToWrite {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;    // row-major, slowest dimension first; empty for a scalar
  std::span<const uint8_t> data;  // the caller's, until WriteSafetensors returns
};

// Bytes of any values, for TensorToWrite::data.
template <typename T>
std::span<const uint8_t> AsBytes(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

// Replaces `path` by a file of these tensors and of `metadata` (its __metadata__). Tensors lie in
// order of decreasing element size, so that each is aligned to its own. The file appears whole or
// not at all. Fails with InvalidArgument for a name that is taken, reserved or no UTF-8, a type
// that the format lacks, or data whose size is not that of shape and type; with IoError when the
// system refuses.
Status WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                        const std::map<std::string, std::string>& metadata = {});

}  // namespace colibri
