// fuzz/fuzz_input.h - what the fuzz targets of file formats share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "format/metadata.h"
#include "format/tensor_source.h"
#include "tensor/dequantize.h"

namespace colibri::fuzz {

// An input stands for several files where it holds this line.
inline constexpr std::string_view kFileSeparator = "\n=====\n";

inline std::vector<std::string_view> SplitFiles(const uint8_t* data, size_t size,
                                                size_t max_files) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> files;
  while (files.size() + 1 < max_files) {
    const size_t at = rest.find(kFileSeparator);
    if (at == std::string_view::npos) break;
    files.push_back(rest.substr(0, at));
    rest.remove_prefix(at + kFileSeparator.size());
  }
  files.push_back(rest);
  return files;
}

inline void Require(bool condition) {
  if (!condition) std::abort();
}

// A refusal must say something.
inline void CheckMessage(const Status& status) {
  Require(!status.ok() && !status.message().empty());
}

// Everything that was accepted must be readable: names, both ends of the data, decoded blocks.
inline void WalkTensors(const TensorSource& source) {
  constexpr uint64_t kMaxRead = 2048;
  for (const TensorInfo& tensor : source.tensors()) {
    Require(source.Find(tensor.name) == &tensor);
    Require(tensor.file < source.files().size());
    std::vector<uint8_t> bytes(static_cast<size_t>(std::min(tensor.n_bytes, kMaxRead)));
    Require(source.Read(tensor, 0, bytes).ok());
    const DTypeInfo& info = GetDTypeInfo(tensor.dtype);
    if (info.is_weight) {
      const size_t n = bytes.size() / info.block_bytes * info.block_elements;
      std::vector<float> values(n);
      DequantizeReference(tensor.dtype, bytes.data(), values.data(), n);
    }
    Require(source.Read(tensor, tensor.n_bytes - bytes.size(), bytes).ok());
  }
}

// Every key through every way to read it; each gives a value or a message.
inline void WalkMetadata(const Metadata& metadata) {
  const auto check = [](const auto& result) {
    if (!result.ok()) CheckMessage(result.status());
  };
  for (const auto& [key, value] : metadata.values()) {
    Require(metadata.Find(key) == &value);
    check(metadata.GetInt(key));
    check(metadata.GetDouble(key));
    check(metadata.GetBool(key));
    check(metadata.GetString(key));
    check(metadata.GetInts(key));
    check(metadata.GetDoubles(key));
    check(metadata.GetStrings(key));
    check(metadata.GetBools(key));
  }
}

}  // namespace colibri::fuzz
