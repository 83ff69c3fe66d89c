// support/gguf_builder.h - writes GGUF files for tests, right ones and deliberately broken ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace colibri::testing {

// Appends the parts of a file in the order of the calls; nothing is checked.
class ByteWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> ByteWriter& Number(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
    return *this;
  }
  ByteWriter& String(std::string_view text) {
    Number<uint64_t>(text.size());
    out_ += text;
    return *this;
  }
  ByteWriter& Raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

enum GgufValueType : uint32_t {
  kGgufUint8 = 0,
  kGgufUint16 = 2,
  kGgufUint32 = 4,
  kGgufInt32 = 5,
  kGgufFloat32 = 6,
  kGgufBool = 7,
  kGgufString = 8,
  kGgufArray = 9,
  kGgufUint64 = 10,
  kGgufInt64 = 11,
  kGgufFloat64 = 12,
};

// A GGUF file as a list of keys and tensors. Members are public: a test breaks what it wants.
struct GgufBuilder {
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // fastest first, as the file has them
    uint32_t type = 0;
    uint64_t offset = 0;
    std::string data;
  };

  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<std::string> keys;  // each with its type and value, as in the file
  std::vector<Tensor> tensors;
  // When not 0, written instead of the true counts.
  uint64_t n_tensors_written = 0;
  uint64_t n_keys_written = 0;

  template <typename T>
  GgufBuilder& Key(std::string_view name, uint32_t type, T value) {
    keys.push_back(ByteWriter().String(name).Number(type).Number(value).bytes());
    return *this;
  }
  GgufBuilder& TextKey(std::string_view name, std::string_view value) {
    keys.push_back(ByteWriter().String(name).Number<uint32_t>(kGgufString).String(value).bytes());
    return *this;
  }
  // `elements` as the file has them.
  GgufBuilder& ListKey(std::string_view name, uint32_t element_type, uint64_t n,
                       std::string_view elements) {
    keys.push_back(ByteWriter()
                       .String(name)
                       .Number<uint32_t>(kGgufArray)
                       .Number(element_type)
                       .Number(n)
                       .Raw(elements)
                       .bytes());
    return *this;
  }
  // Adds a tensor behind those there are.
  GgufBuilder& Add(std::string name, std::vector<uint64_t> dims, uint32_t type, std::string data) {
    uint64_t offset = 0;
    if (!tensors.empty()) {
      offset = Aligned(tensors.back().offset + tensors.back().data.size());
    }
    tensors.push_back({std::move(name), std::move(dims), type, offset, std::move(data)});
    return *this;
  }

  std::string Build() const {
    ByteWriter out;
    out.Raw("GGUF").Number(version);
    out.Number<uint64_t>(n_tensors_written != 0 ? n_tensors_written : tensors.size());
    out.Number<uint64_t>(n_keys_written != 0 ? n_keys_written : keys.size());
    for (const std::string& key : keys) out.Raw(key);
    for (const Tensor& tensor : tensors) {
      out.String(tensor.name).Number(static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) out.Number(dim);
      out.Number(tensor.type).Number(tensor.offset);
    }
    std::string file = out.bytes();
    file.resize(Aligned(file.size()), '\0');
    for (const Tensor& tensor : tensors) {
      file.resize(Aligned(file.size()), '\0');
      file += tensor.data;
    }
    return file;
  }

 private:
  uint64_t Aligned(uint64_t n) const { return (n + alignment - 1) / alignment * alignment; }
};

}  // namespace colibri::testing
