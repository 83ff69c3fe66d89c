#include "format/safetensors.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "base/strings.h"
#include "format/file_tensor_source.h"
#include "format/json.h"
#include "format/shard_name.h"

namespace colibri {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;

struct DTypeSpelling {
  std::string_view name;
  DType dtype;
};
constexpr std::array<DTypeSpelling, 12> kDTypes = {{{"F64", DType::kF64},
                                                    {"F32", DType::kF32},
                                                    {"F16", DType::kF16},
                                                    {"BF16", DType::kBF16},
                                                    {"F8_E4M3", DType::kF8_E4M3},
                                                    {"F8_E5M2", DType::kF8_E5M2},
                                                    {"I64", DType::kI64},
                                                    {"I32", DType::kI32},
                                                    {"I16", DType::kI16},
                                                    {"I8", DType::kI8},
                                                    {"U8", DType::kU8},
                                                    {"BOOL", DType::kBool}}};

std::optional<DType> FindDType(std::string_view name) {
  for (const DTypeSpelling& spelling : kDTypes) {
    if (spelling.name == name) return spelling.dtype;
  }
  return std::nullopt;
}

// Reads the entries of one file's header.
class HeaderReader {
 public:
  HeaderReader(const RandomAccessFile& file, uint32_t file_index)
      : file_(file), file_index_(file_index) {}

  // Appends the file's tensors in the order of their data.
  Status Read(std::vector<TensorInfo>& out) {
    COLIBRI_ASSIGN_OR_RETURN(const std::string header, ReadHeaderText());
    COLIBRI_ASSIGN_OR_RETURN(const auto document,
                             ParseJson(header, StrCat(file_.path(), ": header")));
    dom::object entries;
    if (document->root.get(entries)) return Corrupt("the header is no JSON object");
    bool has_metadata = false;
    for (const dom::key_value_pair entry : entries) {
      if (entry.key == kMetadataKey) {
        if (has_metadata) return Corrupt("__metadata__ stands there twice");
        has_metadata = true;
        COLIBRI_RETURN_IF_ERROR(CheckMetadata(entry.value));
        continue;
      }
      TensorInfo tensor;
      COLIBRI_RETURN_IF_ERROR(ReadEntry(entry.key, entry.value, tensor));
      tensors_.push_back(std::move(tensor));
    }
    COLIBRI_RETURN_IF_ERROR(CheckCoverage());
    out.insert(out.end(), std::make_move_iterator(tensors_.begin()),
               std::make_move_iterator(tensors_.end()));
    return {};
  }

 private:
  Status Corrupt(std::string_view what) const {
    return CorruptData(StrCat(Printable(file_.path(), 400), ": ", what));
  }
  Status Corrupt(std::string_view tensor, std::string_view what) const {
    return Corrupt(StrCat("tensor ", Printable(tensor), ": ", what));
  }

  Result<std::string> ReadHeaderText() {
    if (file_.size() < kLengthBytes) {
      return Corrupt(StrCat("has ", file_.size(),
                            " bytes; a safetensors file starts with 8 that tell its header's "
                            "length"));
    }
    std::array<uint8_t, kLengthBytes> length_bytes;
    COLIBRI_RETURN_IF_ERROR(file_.ReadAt(0, length_bytes));
    uint64_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) {
      length |= static_cast<uint64_t>(length_bytes[i]) << (8 * i);
    }
    if (length > file_.size() - kLengthBytes) {
      return Corrupt(StrCat("the header's length at offset 0 is ", length, " bytes, but only ",
                            file_.size() - kLengthBytes, " follow"));
    }
    if (length > kMaxSafetensorsHeaderBytes) {
      return ResourceExhausted(StrCat(Printable(file_.path(), 400), ": the header has ", length,
                                      " bytes; the format allows ", kMaxSafetensorsHeaderBytes));
    }
    std::string text(static_cast<size_t>(length), '\0');
    COLIBRI_RETURN_IF_ERROR(
        file_.ReadAt(kLengthBytes, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
    if (!text.starts_with('{')) return Corrupt("the header at offset 8 does not start with '{'");
    data_begin_ = kLengthBytes + length;
    return text;
  }

  Status CheckMetadata(dom::element value) const {
    dom::object pairs;
    if (value.get(pairs)) return Corrupt("__metadata__ is no JSON object");
    std::set<std::string_view> keys;
    for (const dom::key_value_pair pair : pairs) {
      if (!pair.value.is_string()) {
        return Corrupt(StrCat("__metadata__ key ", Printable(pair.key), " is no string"));
      }
      if (!keys.insert(pair.key).second) {
        return Corrupt(StrCat("__metadata__ key ", Printable(pair.key), " stands there twice"));
      }
    }
    return {};
  }

  // One entry: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
  Status ReadEntry(std::string_view name, dom::element value, TensorInfo& tensor) const {
    tensor.name = std::string(name);
    tensor.file = file_index_;
    dom::object fields;
    if (value.get(fields)) return Corrupt(name, "its entry is no JSON object");
    bool has_dtype = false;
    bool has_shape = false;
    bool has_offsets = false;
    for (const dom::key_value_pair field : fields) {
      bool* seen = field.key == "dtype"          ? &has_dtype
                   : field.key == "shape"        ? &has_shape
                   : field.key == "data_offsets" ? &has_offsets
                                                 : nullptr;
      if (seen == nullptr) return Corrupt(name, StrCat("unknown field ", Printable(field.key)));
      if (*seen) return Corrupt(name, StrCat("field ", field.key, " stands there twice"));
      *seen = true;
      COLIBRI_RETURN_IF_ERROR(seen == &has_dtype   ? ReadDType(name, field.value, tensor)
                              : seen == &has_shape ? ReadShape(name, field.value, tensor)
                                                   : ReadOffsets(name, field.value, tensor));
    }
    if (!has_dtype || !has_shape || !has_offsets) {
      return Corrupt(name, "needs the fields dtype, shape and data_offsets");
    }
    return CheckSize(tensor);
  }

  Status ReadDType(std::string_view name, dom::element value, TensorInfo& tensor) const {
    std::string_view spelling;
    if (value.get(spelling)) return Corrupt(name, "dtype is no string");
    const auto dtype = FindDType(spelling);
    if (!dtype) {
      return Unsupported(StrCat(Printable(file_.path(), 400), ": tensor ", Printable(name),
                                ": unknown dtype ", Printable(spelling),
                                "; known are F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, "
                                "I16, I8, U8, BOOL"));
    }
    tensor.dtype = *dtype;
    return {};
  }

  Status ReadShape(std::string_view name, dom::element value, TensorInfo& tensor) const {
    dom::array dims;
    if (value.get(dims)) return Corrupt(name, "shape is no list");
    for (const dom::element dim : dims) {
      uint64_t n = 0;
      if (dim.get(n)) return Corrupt(name, "shape holds something that is no size");
      if (tensor.shape.size() == kMaxSafetensorsDims) {
        return Corrupt(name, StrCat("shape has more than ", kMaxSafetensorsDims, " dimensions"));
      }
      tensor.shape.push_back(n);
    }
    return {};
  }

  Status ReadOffsets(std::string_view name, dom::element value, TensorInfo& tensor) const {
    dom::array pair;
    uint64_t begin = 0;
    uint64_t end = 0;
    if (value.get(pair) || pair.size() != 2 || pair.at(0).get(begin) || pair.at(1).get(end)) {
      return Corrupt(name, "data_offsets are not two offsets");
    }
    const uint64_t data_bytes = file_.size() - data_begin_;
    if (begin > end || end > data_bytes) {
      return Corrupt(name,
                     StrCat("data_offsets [", begin, ", ", end, "] do not lie within the file's ",
                            data_bytes, " bytes of data; is the file cut short?"));
    }
    tensor.offset = data_begin_ + begin;
    tensor.n_bytes = end - begin;
    return {};
  }

  Status CheckSize(const TensorInfo& tensor) const {
    const auto n = ElementCount(tensor.shape);
    const auto n_bytes = n ? DTypeBytes(tensor.dtype, *n) : std::nullopt;
    if (!n_bytes) {
      return Corrupt(tensor.name, StrCat("the size of shape ", ShapeString(tensor.shape),
                                         " does not fit 64 bits"));
    }
    if (*n_bytes != tensor.n_bytes) {
      return Corrupt(tensor.name,
                     StrCat("shape ", ShapeString(tensor.shape), " of ", DTypeName(tensor.dtype),
                            " takes ", *n_bytes, " bytes, but data_offsets give ", tensor.n_bytes));
    }
    return {};
  }

  // Sorts by place; every byte of data must belong to exactly one tensor.
  Status CheckCoverage() {
    const auto before = [](const TensorInfo& a, const TensorInfo& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.n_bytes < b.n_bytes;
    };
    if (!std::is_sorted(tensors_.begin(), tensors_.end(), before)) {
      std::stable_sort(tensors_.begin(), tensors_.end(), before);
    }
    uint64_t expected = data_begin_;
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.offset < expected) {
        return Corrupt(tensor.name,
                       StrCat("its data at offset ", tensor.offset,
                              " of the file overlap another tensor's, which end at ", expected));
      }
      if (tensor.offset > expected) {
        return Corrupt(tensor.name, StrCat("its data start at offset ", tensor.offset,
                                           " of the file, leaving a gap after ", expected));
      }
      expected += tensor.n_bytes;
    }
    if (expected != file_.size()) {
      return Corrupt(StrCat("the tensors end at offset ", expected, ", but the file has ",
                            file_.size(), " bytes"));
    }
    return {};
  }

  const RandomAccessFile& file_;
  const uint32_t file_index_;
  uint64_t data_begin_ = 0;
  std::vector<TensorInfo> tensors_;
};

// Opens and checks every file of `names`, in that order.
Result<std::unique_ptr<TensorSource>> OpenShards(const FileSystem& files,
                                                 const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<RandomAccessFile>> opened;
  std::vector<TensorInfo> tensors;
  for (const std::string& path : paths) {
    COLIBRI_ASSIGN_OR_RETURN(auto file, files.Open(path));
    COLIBRI_RETURN_IF_ERROR(
        HeaderReader(*file, static_cast<uint32_t>(opened.size())).Read(tensors));
    opened.push_back(std::move(file));
  }
  return FileTensorSource::Create("safetensors", std::move(opened), std::move(tensors));
}

// Tensor name -> file name.
using WeightMap = std::map<std::string, std::string, std::less<>>;

Result<WeightMap> ReadIndex(const FileSystem& files, const std::string& path) {
  COLIBRI_ASSIGN_OR_RETURN(const std::string text,
                           ReadWholeFile(files, path, kMaxSafetensorsIndexBytes));
  COLIBRI_ASSIGN_OR_RETURN(const auto document, ParseJson(text, path));
  dom::object entries;
  if (document->root["weight_map"].get(entries)) {
    return CorruptData(StrCat(Printable(path, 400), ": has no object weight_map"));
  }
  WeightMap map;
  for (const dom::key_value_pair entry : entries) {
    std::string_view shard;
    if (entry.value.get(shard)) {
      return CorruptData(StrCat(Printable(path, 400), ": weight_map key ", Printable(entry.key),
                                " is no file name"));
    }
    if (shard.find('/') != std::string_view::npos || !shard.ends_with(kSuffix)) {
      return CorruptData(StrCat(Printable(path, 400), ": weight_map key ", Printable(entry.key),
                                ": ", Printable(shard),
                                " is no .safetensors file of the same folder"));
    }
    if (!map.emplace(std::string(entry.key), std::string(shard)).second) {
      return CorruptData(StrCat(Printable(path, 400), ": weight_map key ", Printable(entry.key),
                                " stands there twice"));
    }
  }
  if (map.empty()) return CorruptData(StrCat(Printable(path, 400), ": weight_map is empty"));
  return map;
}

// Index and shards must tell the same story.
Status CheckAgainstIndex(const TensorSource& source, const WeightMap& map,
                         const std::string& folder, const std::string& index_path) {
  for (const auto& [name, shard] : map) {
    const TensorInfo* tensor = source.Find(name);
    if (tensor == nullptr) {
      return CorruptData(StrCat(Printable(index_path, 400), ": tensor ", Printable(name),
                                " should be in ", Printable(shard), ", but no shard has it"));
    }
    if (source.files()[tensor->file] != JoinPath(folder, shard)) {
      return CorruptData(StrCat(Printable(index_path, 400), ": tensor ", Printable(name),
                                " should be in ", Printable(shard), ", but it lies in ",
                                Printable(source.files()[tensor->file], 400)));
    }
  }
  if (source.tensors().size() == map.size()) return {};
  for (const TensorInfo& tensor : source.tensors()) {
    if (!map.contains(tensor.name)) {
      return CorruptData(StrCat(Printable(index_path, 400), ": does not list tensor ",
                                Printable(tensor.name), " of ",
                                Printable(source.files()[tensor.file], 400)));
    }
  }
  return {};
}

Result<std::unique_ptr<TensorSource>> OpenIndexed(const FileSystem& files,
                                                  const std::string& folder) {
  const std::string index_path = JoinPath(folder, std::string(kIndexName));
  COLIBRI_ASSIGN_OR_RETURN(const WeightMap map, ReadIndex(files, index_path));
  std::set<std::string> shards;
  for (const auto& [name, shard] : map) shards.insert(shard);
  if (shards.size() > kMaxSafetensorsShards) {
    return ResourceExhausted(StrCat(Printable(index_path, 400), ": names ", shards.size(),
                                    " files; at most ", kMaxSafetensorsShards, " are opened"));
  }
  std::vector<std::string> paths;
  for (const std::string& shard : shards) {
    paths.push_back(JoinPath(folder, shard));
    if (files.GetKind(paths.back()) != FileSystem::Kind::kFile) {
      return NotFound(StrCat(Printable(index_path, 400), ": the shard ", Printable(shard),
                             " is missing from the folder"));
    }
  }
  COLIBRI_ASSIGN_OR_RETURN(auto source, OpenShards(files, paths));
  COLIBRI_RETURN_IF_ERROR(CheckAgainstIndex(*source, map, folder, index_path));
  return source;
}

// Without an index, numbered names still say how many files there should be.
Status CheckNumberedNames(const std::string& folder, const std::vector<std::string>& names) {
  const std::set<std::string_view> present(names.begin(), names.end());
  std::set<std::string> checked;
  for (const std::string& name : names) {
    const auto shard = ParseShardName(name, kSuffix);
    if (!shard || !checked.insert(shard->Sibling(shard->count)).second) continue;
    for (uint32_t i = 1; i <= shard->count; ++i) {
      const std::string sibling = shard->Sibling(i);
      if (!present.contains(sibling)) {
        return NotFound(StrCat(Printable(folder, 400), ": ", Printable(name), " is one of ",
                               shard->count, " parts, but ", Printable(sibling),
                               " is missing, and there is no ", kIndexName));
      }
    }
  }
  return {};
}

}  // namespace

std::optional<std::string_view> SafetensorsDTypeName(DType dtype) {
  for (const DTypeSpelling& spelling : kDTypes) {
    if (spelling.dtype == dtype) return spelling.name;
  }
  return std::nullopt;
}

Result<std::unique_ptr<TensorSource>> OpenSafetensorsFile(const FileSystem& files,
                                                          const std::string& path) {
  return OpenShards(files, {path});
}

Result<std::unique_ptr<TensorSource>> OpenSafetensorsFolder(const FileSystem& files,
                                                            const std::string& folder,
                                                            const Log& log) {
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<std::string> all, files.ListFiles(folder));
  std::vector<std::string> names;
  std::copy_if(all.begin(), all.end(), std::back_inserter(names),
               [](const std::string& name) { return name.ends_with(kSuffix); });
  const bool has_index = std::binary_search(all.begin(), all.end(), kIndexName);
  if (std::binary_search(names.begin(), names.end(), kSingleName)) {
    if (has_index || names.size() > 1) {
      log.Warning(StrCat(Printable(folder, 400), ": reading ", kSingleName,
                         " alone; the other weight files there are not used"));
    }
    return OpenSafetensorsFile(files, JoinPath(folder, std::string(kSingleName)));
  }
  if (has_index) return OpenIndexed(files, folder);
  if (names.empty()) {
    return NotFound(StrCat(Printable(folder, 400), ": holds no .safetensors file"));
  }
  if (names.size() > kMaxSafetensorsShards) {
    return ResourceExhausted(StrCat(Printable(folder, 400), ": holds ", names.size(),
                                    " .safetensors files; at most ", kMaxSafetensorsShards,
                                    " are opened"));
  }
  COLIBRI_RETURN_IF_ERROR(CheckNumberedNames(folder, names));
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(JoinPath(folder, name));
  return OpenShards(files, paths);
}

}  // namespace colibri
