// cli/safetensors_file.h - writes a safetensors file whose tensors are filled in piece by piece, so
// that memory does not grow with them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace colibri::cli {

struct OutputTensor {
  std::string name;
  std::string dtype;            // as safetensors spells it: "F32", "I64"
  std::vector<uint64_t> shape;  // row-major
  uint64_t element_bytes = 0;
};

class SafetensorsFile {
 public:
  // Creates (or replaces) the file and writes its header. InvalidArgument when the sizes overflow;
  // IoError names the file and errno.
  static Result<SafetensorsFile> Create(const std::string& path, std::vector<OutputTensor> tensors);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  // Removes the file unless Close succeeded: half a file is worse than none.
  ~SafetensorsFile();

  // Writes bytes at `offset` of tensor number `tensor`.
  Status Write(size_t tensor, uint64_t offset, std::span<const uint8_t> bytes);
  // The same for values, at an element's index.
  template <typename T>
  Status WriteValues(size_t tensor, uint64_t first_element, std::span<const T> values) {
    return Write(tensor, first_element * sizeof(T),
                 {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()});
  }
  Status Close();

 private:
  SafetensorsFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status WriteAt(uint64_t offset, std::span<const uint8_t> bytes);

  std::string path_;
  int fd_ = -1;
  std::vector<uint64_t> begin_;  // [tensors + 1] of each tensor's bytes in the file
};

}  // namespace colibri::cli
