#include "format/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "format/file_tensor_source.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "platform/file.h"

namespace colibri {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
// The header is padded with spaces, so that the data start aligned.
constexpr size_t kDataAlignment = 8;

bool IsUtf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

Status Check(const TensorToWrite& tensor) {
  const auto refuse = [&](std::string_view why) {
    return InvalidArgument(StrCat("cannot write tensor ", Printable(tensor.name), ": ", why));
  };
  if (!IsUtf8(tensor.name)) return refuse("its name is no valid UTF-8");
  if (tensor.name == kMetadataKey) return refuse("the name is reserved");
  if (!SafetensorsDTypeName(tensor.dtype)) {
    return refuse(StrCat("safetensors has no type ", DTypeName(tensor.dtype)));
  }
  const auto n = ElementCount(tensor.shape);
  const auto n_bytes = n ? DTypeBytes(tensor.dtype, *n) : std::nullopt;
  if (n_bytes != tensor.data.size()) {
    return refuse(StrCat("its data have ", tensor.data.size(), " bytes, which is not the size of ",
                         DTypeName(tensor.dtype), " ", ShapeString(tensor.shape)));
  }
  return {};
}

std::string MetadataJson(const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  for (const auto& [key, value] : metadata) {
    if (json.size() > 1) json += ',';
    AppendJsonString(json, key);
    json += ':';
    AppendJsonString(json, value);
  }
  return json + "}";
}

void AppendEntry(std::string& json, const TensorToWrite& tensor, uint64_t begin) {
  AppendJsonString(json, tensor.name);
  json += StrCat(":{\"dtype\":\"", *SafetensorsDTypeName(tensor.dtype), "\",\"shape\":[");
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    json += StrCat(i == 0 ? "" : ",", tensor.shape[i]);
  }
  json += StrCat("],\"data_offsets\":[", begin, ",", begin + tensor.data.size(), "]}");
}

}  // namespace

Status WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  std::vector<const TensorToWrite*> order;
  for (const TensorToWrite& tensor : tensors) {
    COLIBRI_RETURN_IF_ERROR(Check(tensor));
    if (!names.insert(tensor.name).second) {
      return InvalidArgument(
          StrCat("cannot write tensor ", Printable(tensor.name), " twice to one file"));
    }
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return GetDTypeInfo(a->dtype).block_bytes > GetDTypeInfo(b->dtype).block_bytes;
  });

  std::string header = "{";
  if (!metadata.empty()) {
    for (const auto& [key, value] : metadata) {
      if (!IsUtf8(key) || !IsUtf8(value)) {
        return InvalidArgument(
            StrCat("cannot write metadata key ", Printable(key), ": it is no valid UTF-8"));
      }
    }
    header += StrCat("\"", kMetadataKey, "\":", MetadataJson(metadata));
  }
  uint64_t offset = 0;
  for (const TensorToWrite* tensor : order) {
    if (header.size() > 1) header += ',';
    AppendEntry(header, *tensor, offset);
    offset += tensor->data.size();
  }
  header += '}';
  header.resize((header.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');

  std::array<uint8_t, 8> length;
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<uint8_t>(static_cast<uint64_t>(header.size()) >> (8 * i));
  }
  std::vector<std::span<const uint8_t>> pieces = {
      length, AsBytes(std::span<const char>(header.data(), header.size()))};
  for (const TensorToWrite* tensor : order) pieces.push_back(tensor->data);
  return WriteFileAtomically(path, pieces);
}

}  // namespace colibri
