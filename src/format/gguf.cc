#include "format/gguf.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/checked.h"
#include "base/strings.h"
#include "format/file_tensor_source.h"
#include "format/gguf_cursor.h"
#include "format/gguf_value.h"
#include "format/shard_name.h"

namespace colibri {
namespace {

constexpr std::string_view kSuffix = ".gguf";
constexpr std::array<char, 4> kMagic = {'G', 'G', 'U', 'F'};
constexpr uint64_t kDefaultAlignment = 32;
// The least that a key with its value, and a tensor's entry, take in the file.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

struct TensorType {
  uint32_t id;
  DType dtype;
};
constexpr TensorType kTensorTypes[] = {
    {0, DType::kF32},      {1, DType::kF16},     {2, DType::kQ4_0},     {3, DType::kQ4_1},
    {6, DType::kQ5_0},     {7, DType::kQ5_1},    {8, DType::kQ8_0},     {10, DType::kQ2_K},
    {11, DType::kQ3_K},    {12, DType::kQ4_K},   {13, DType::kQ5_K},    {14, DType::kQ6_K},
    {16, DType::kIQ2_XXS}, {17, DType::kIQ2_XS}, {18, DType::kIQ3_XXS}, {19, DType::kIQ1_S},
    {20, DType::kIQ4_NL},  {21, DType::kIQ3_S},  {22, DType::kIQ2_S},   {23, DType::kIQ4_XS},
    {24, DType::kI8},      {25, DType::kI16},    {26, DType::kI32},     {27, DType::kI64},
    {28, DType::kF64},     {29, DType::kIQ1_M},  {30, DType::kBF16},    {34, DType::kTQ1_0},
    {35, DType::kTQ2_0},   {39, DType::kMXFP4},  {40, DType::kNVFP4},
};

struct RefusedType {
  uint32_t id;
  std::string_view name;
  std::string_view why;
};
constexpr std::string_view kRemoved =
    "was removed from the format; convert the model again with a current converter";
constexpr std::string_view kActivations = "is for activations and is never stored";
constexpr RefusedType kRefusedTypes[] = {
    {4, "Q4_2", kRemoved},        {5, "Q4_3", kRemoved},        {9, "Q8_1", kActivations},
    {15, "Q8_K", kActivations},   {31, "Q4_0_4_4", kRemoved},   {32, "Q4_0_4_8", kRemoved},
    {33, "Q4_0_8_8", kRemoved},   {36, "IQ4_NL_4_4", kRemoved}, {37, "IQ4_NL_4_8", kRemoved},
    {38, "IQ4_NL_8_8", kRemoved},
};

Result<DType> FindTensorType(uint32_t id) {
  for (const TensorType& type : kTensorTypes) {
    if (type.id == id) return type.dtype;
  }
  for (const RefusedType& type : kRefusedTypes) {
    if (type.id == id) return Unsupported(StrCat("its type ", type.name, " ", type.why));
  }
  return Unsupported(StrCat("its type id ", id, " is unknown to this build"));
}

// What one file says.
struct Part {
  std::unique_ptr<RandomAccessFile> file;
  uint32_t version = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;
};

class PartReader {
 public:
  PartReader(const RandomAccessFile& file, uint32_t file_index, Part& part)
      : cursor_(file), file_index_(file_index), part_(part) {}

  Status Read() {
    uint64_t n_tensors = 0;
    uint64_t n_keys = 0;
    COLIBRI_RETURN_IF_ERROR(ReadHead(n_tensors, n_keys));
    COLIBRI_RETURN_IF_ERROR(ReadKeys(n_keys));
    COLIBRI_ASSIGN_OR_RETURN(alignment_, Alignment());
    part_.tensors.reserve(static_cast<size_t>(n_tensors));
    for (uint64_t i = 0; i < n_tensors; ++i) {
      COLIBRI_RETURN_IF_ERROR(ReadTensor(i, part_.tensors.emplace_back()));
    }
    return PlaceTensors();
  }

 private:
  std::string Path() const { return Printable(cursor_.file().path(), 400); }

  Status ReadHead(uint64_t& n_tensors, uint64_t& n_keys) {
    COLIBRI_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(cursor_.file()));
    if (!is_gguf) return CorruptData(StrCat(Path(), ": does not start with \"GGUF\""));
    uint32_t magic = 0;
    COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(magic));
    COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(part_.version));
    if (part_.version != 0 && (part_.version & 0xffffu) == 0) {
      return Unsupported(StrCat(Path(), ": a big-endian GGUF file; convert it to little endian"));
    }
    if (part_.version != 2 && part_.version != 3) {
      return Unsupported(
          StrCat(Path(), ": GGUF version ", part_.version, "; versions 2 and 3 are supported"));
    }
    COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(n_tensors));
    COLIBRI_RETURN_IF_ERROR(CheckCount("tensors", n_tensors, kMaxGgufTensors, kMinTensorBytes));
    COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(n_keys));
    return CheckCount("metadata keys", n_keys, kMaxGgufKeys, kMinKeyBytes);
  }

  Status CheckCount(std::string_view what, uint64_t n, uint64_t max, uint64_t min_bytes) const {
    if (n > cursor_.remaining() / min_bytes) {
      return cursor_.Corrupt(StrCat("a count of ", n, " ", what, " is more than the file's ",
                                    cursor_.file().size(), " bytes can hold"));
    }
    if (n > max) {
      return cursor_.TooMuch(
          StrCat("a count of ", n, " ", what, "; at most ", max, " are allowed"));
    }
    return {};
  }

  Status ReadKeys(uint64_t n_keys) {
    part_.metadata = Metadata(cursor_.file().path());
    GgufValueReader values(cursor_);
    for (uint64_t i = 0; i < n_keys; ++i) {
      std::string key;
      COLIBRI_RETURN_IF_ERROR(cursor_.ReadString(key, kMaxGgufKeyBytes, "a metadata key"));
      if (part_.metadata.Find(key) != nullptr) {
        return cursor_.Corrupt(StrCat("key ", Printable(key), " stands there twice"));
      }
      MetaValue value;
      COLIBRI_RETURN_IF_ERROR(values.Read(key, value));
      part_.metadata.Set(std::move(key), std::move(value));
      if (cursor_.position() > kMaxGgufMetadataBytes) {
        return cursor_.TooMuch(
            StrCat("the metadata are longer than ", kMaxGgufMetadataBytes, " bytes"));
      }
    }
    return {};
  }

  Result<uint64_t> Alignment() const {
    COLIBRI_ASSIGN_OR_RETURN(const auto value, part_.metadata.GetInt("general.alignment"));
    if (!value) return kDefaultAlignment;
    const auto alignment = static_cast<uint64_t>(*value);
    if (*value <= 0 || alignment > kMaxGgufAlignment || (alignment & (alignment - 1)) != 0) {
      return CorruptData(StrCat(Path(), ": key general.alignment is ", *value,
                                "; it should be a power of two up to ", kMaxGgufAlignment));
    }
    return alignment;
  }

  // While the entry is read: also says where in the header.
  Status EntryError(const TensorInfo& tensor, std::string_view what) const {
    return cursor_.Corrupt(StrCat("tensor ", Printable(tensor.name), ": ", what));
  }
  Status TensorError(const TensorInfo& tensor, std::string_view what) const {
    return CorruptData(StrCat(Path(), ": tensor ", Printable(tensor.name), ": ", what));
  }

  // Name, shape (fastest dimension first), type and offset within the data.
  Status ReadTensor(uint64_t index, TensorInfo& tensor) {
    tensor.file = file_index_;
    Status status = cursor_.ReadString(tensor.name, kMaxGgufTensorNameBytes, "a tensor's name");
    if (!status.ok()) return std::move(status).WithContext(StrCat("tensor ", index));
    uint32_t n_dims = 0;
    COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(n_dims));
    if (n_dims > kMaxGgufDims) {
      return EntryError(tensor,
                        StrCat("has ", n_dims, " dimensions; the format allows ", kMaxGgufDims));
    }
    tensor.shape.resize(n_dims);
    for (uint64_t& dim : tensor.shape) COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(dim));
    uint32_t type_id = 0;
    COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(type_id));
    COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(tensor.offset));
    auto dtype = FindTensorType(type_id);
    if (!dtype.ok()) {
      return std::move(dtype).status().WithContext(
          StrCat(Path(), ": offset ", cursor_.position(), ": tensor ", Printable(tensor.name)));
    }
    tensor.dtype = *dtype;
    return ComputeSize(tensor);
  }

  Status ComputeSize(TensorInfo& tensor) const {
    const uint64_t row = tensor.shape.empty() ? 1 : tensor.shape.front();
    const DTypeInfo& info = GetDTypeInfo(tensor.dtype);
    if (row % info.block_elements != 0) {
      return EntryError(tensor, StrCat("rows of ", row, " elements are no whole number of ",
                                       info.name, " blocks of ", info.block_elements));
    }
    const auto n = ElementCount(tensor.shape);
    const auto n_bytes = n ? DTypeBytes(tensor.dtype, *n) : std::nullopt;
    if (!n_bytes) return EntryError(tensor, "the size of its shape does not fit 64 bits");
    tensor.n_bytes = *n_bytes;
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    return {};
  }

  // Offsets count from the first aligned byte after the header.
  Status PlaceTensors() {
    const uint64_t data_begin = (cursor_.position() + alignment_ - 1) / alignment_ * alignment_;
    for (TensorInfo& tensor : part_.tensors) {
      if (tensor.offset % alignment_ != 0) {
        return TensorError(tensor, StrCat("its data's offset ", tensor.offset,
                                          " is no multiple of the alignment ", alignment_));
      }
      const auto begin = CheckedAdd(data_begin, tensor.offset);
      const auto end = begin ? CheckedAdd(*begin, tensor.n_bytes) : std::nullopt;
      if (!end || *end > cursor_.file().size()) {
        return TensorError(tensor, StrCat("its ", tensor.n_bytes, " bytes of data at offset ",
                                          tensor.offset, " after the header (", data_begin,
                                          ") reach beyond the end of the file (",
                                          cursor_.file().size(), "); is the file cut short?"));
      }
      tensor.offset = *begin;
    }
    return CheckOverlaps();
  }

  Status CheckOverlaps() const {
    std::vector<const TensorInfo*> by_place;
    by_place.reserve(part_.tensors.size());
    for (const TensorInfo& tensor : part_.tensors) {
      if (tensor.n_bytes != 0) by_place.push_back(&tensor);
    }
    const auto before = [](const TensorInfo* a, const TensorInfo* b) {
      return a->offset < b->offset;
    };
    if (!std::is_sorted(by_place.begin(), by_place.end(), before)) {
      std::stable_sort(by_place.begin(), by_place.end(), before);
    }
    for (size_t i = 1; i < by_place.size(); ++i) {
      const TensorInfo& previous = *by_place[i - 1];
      if (by_place[i]->offset < previous.offset + previous.n_bytes) {
        return TensorError(*by_place[i], StrCat("its data at offset ", by_place[i]->offset,
                                                " of the file overlap those of tensor ",
                                                Printable(previous.name)));
      }
    }
    return {};
  }

  GgufCursor cursor_;
  const uint32_t file_index_;
  Part& part_;
  uint64_t alignment_ = kDefaultAlignment;
};

Result<Part> ReadPart(const FileSystem& files, const std::string& path, uint32_t file_index) {
  Part part;
  COLIBRI_ASSIGN_OR_RETURN(part.file, files.Open(path));
  COLIBRI_RETURN_IF_ERROR(PartReader(*part.file, file_index, part).Read());
  return part;
}

// The key must be there and have this value.
Status CheckSplitKey(const Part& part, std::string_view key, uint64_t wanted) {
  COLIBRI_ASSIGN_OR_RETURN(const auto value, part.metadata.GetInt(key));
  if (!value) {
    return CorruptData(StrCat(Printable(part.file->path(), 400),
                              ": is named as part of a split "
                              "model, but has no key ",
                              key));
  }
  if (*value < 0 || static_cast<uint64_t>(*value) != wanted) {
    return CorruptData(StrCat(Printable(part.file->path(), 400), ": key ", key, " is ", *value,
                              "; it should be ", wanted));
  }
  return {};
}

// The paths of all parts, in order; only `path` itself when its name is no part's.
Result<std::vector<std::string>> FindParts(const FileSystem& files, const std::string& path,
                                           bool& is_split) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const auto name = ParseShardName(path.substr(folder.size()), kSuffix);
  is_split = name.has_value();
  if (!is_split) return std::vector<std::string>{path};
  std::vector<std::string> paths;
  for (uint32_t i = 1; i <= name->count; ++i) {
    paths.push_back(folder + name->Sibling(i));
    if (files.GetKind(paths.back()) != FileSystem::Kind::kFile) {
      return NotFound(StrCat(Printable(paths.back(), 400), ": part ", i, " of ", name->count,
                             " of the split model is missing"));
    }
  }
  return paths;
}

Status CheckSingle(const Part& part) {
  COLIBRI_ASSIGN_OR_RETURN(const auto count, part.metadata.GetInt("split.count"));
  if (!count || *count <= 1) return {};
  return InvalidArgument(StrCat(Printable(part.file->path(), 400), ": is one of ", *count,
                                " parts of a split model; its name should end in -0000I-of-0000N",
                                kSuffix, ", with the others beside it"));
}

Status CheckSplit(const std::vector<Part>& parts, uint64_t n_tensors) {
  for (size_t i = 0; i < parts.size(); ++i) {
    COLIBRI_RETURN_IF_ERROR(CheckSplitKey(parts[i], "split.no", i));
    COLIBRI_RETURN_IF_ERROR(CheckSplitKey(parts[i], "split.count", parts.size()));
  }
  for (const Part& part : parts) {
    COLIBRI_RETURN_IF_ERROR(CheckSplitKey(part, "split.tensors.count", n_tensors));
  }
  return {};
}

}  // namespace

Result<bool> IsGguf(const RandomAccessFile& file) {
  std::array<uint8_t, kMagic.size()> magic;
  if (file.size() < magic.size()) return false;
  COLIBRI_RETURN_IF_ERROR(file.ReadAt(0, magic));
  return std::equal(magic.begin(), magic.end(), kMagic.begin(),
                    [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); });
}

Result<GgufModel> OpenGguf(const FileSystem& files, const std::string& path) {
  bool is_split = false;
  COLIBRI_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FindParts(files, path, is_split));
  std::vector<Part> parts;
  uint64_t n_tensors = 0;
  for (const std::string& part_path : paths) {
    COLIBRI_ASSIGN_OR_RETURN(Part part,
                             ReadPart(files, part_path, static_cast<uint32_t>(parts.size())));
    n_tensors += part.tensors.size();
    parts.push_back(std::move(part));
  }
  COLIBRI_RETURN_IF_ERROR(is_split ? CheckSplit(parts, n_tensors) : CheckSingle(parts.front()));

  GgufModel model;
  model.metadata = std::move(parts.front().metadata);
  std::vector<std::unique_ptr<RandomAccessFile>> opened;
  std::vector<TensorInfo> tensors;
  tensors.reserve(static_cast<size_t>(n_tensors));
  for (Part& part : parts) {
    opened.push_back(std::move(part.file));
    std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(tensors));
  }
  COLIBRI_ASSIGN_OR_RETURN(model.tensors,
                           FileTensorSource::Create(StrCat("gguf v", parts.front().version),
                                                    std::move(opened), std::move(tensors)));
  return model;
}

}  // namespace colibri
