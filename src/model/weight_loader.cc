#include "model/weight_loader.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "base/strings.h"
#include "platform/huge_pages.h"
#include "platform/topology.h"
#include "tensor/dequantize.h"

namespace colibri {
namespace {

constexpr uint64_t kAlignment = 64;
// A copy is cut into reads of this size, so that several threads keep the disk busy.
constexpr uint64_t kReadBytes = 8u << 20;
// What is packed is read into a thread's own buffer first: so much at a time.
constexpr uint64_t kPackBytes = 2u << 20;
// Progress is told after about this much.
constexpr uint64_t kStrideBytes = 256u << 20;

uint64_t AlignUp(uint64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// Copies element (r, c) from c * column_step + r * row_step, for elements of the size of T.
template <typename T>
void Gather(const uint8_t* source, uint64_t rows, uint64_t cols, uint64_t row_step,
            uint64_t column_step, uint8_t* out) {
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < cols; ++c) {
      std::memcpy(out + (r * cols + c) * sizeof(T),
                  source + (c * column_step + r * row_step) * sizeof(T), sizeof(T));
    }
  }
}

// Hugging Face's mxfp4 stores neighbours in one byte; GGUF's block stores elements i and i + 16 in
// byte i, behind the shared exponent.
void PackMxfp4Block(const uint8_t* pairs, uint8_t scale, uint8_t* out) {
  out[0] = scale;
  const auto nibble = [&](int i) {
    return static_cast<uint8_t>((pairs[i / 2] >> (i % 2 * 4)) & 15);
  };
  for (int i = 0; i < 16; ++i) out[1 + i] = static_cast<uint8_t>(nibble(i) | (nibble(i + 16) << 4));
}

constexpr uint64_t kMxfp4BlockBytes = 17;

uint64_t PanelBytes(DType dtype, uint64_t cols) {
  return PanelRowBytes(*FindPanelFormat(dtype), static_cast<int32_t>(cols)) * kPanelRows;
}

// What panels of a format are multiplied by, where activations may be rounded.
ProductInput InputOf(const PanelFormat& format, ActivationType activations) {
  switch (format.numbers) {
    case PanelNumbers::kFloat16:
    case PanelNumbers::kFloat32:
      return ProductInput::kFloat32;
    case PanelNumbers::kBFloat16:
      return ProductInput::kBFloat16;
    case PanelNumbers::kCodes:
      break;
  }
  return activations == ActivationType::kBFloat16 ? ProductInput::kBFloat16
                                                  : ProductInput::kInt8Groups;
}

// All rows of a matrix, or those of some of its panels.
void PackRows(DType dtype, const uint8_t* rows, uint64_t n_rows, uint64_t cols, uint8_t* out) {
  const uint64_t row_bytes = *DTypeBytes(dtype, cols), panel_bytes = PanelBytes(dtype, cols);
  for (uint64_t r = 0; r < n_rows; r += kPanelRows, out += panel_bytes) {
    const uint64_t n = std::min<uint64_t>(kPanelRows, n_rows - r);
    PackPanel(dtype, rows + r * row_bytes, row_bytes, static_cast<int32_t>(n),
              static_cast<int32_t>(cols), out);
  }
}

}  // namespace

Result<const TensorInfo*> WeightLoader::Take(const std::string& name,
                                             const std::vector<uint64_t>& shape) {
  const TensorInfo* tensor = name.empty() ? nullptr : reader_.tensors().Find(name);
  if (tensor == nullptr) {
    return NotFound(StrCat(reader_.metadata().origin(), ": tensor ", name, " ", ShapeString(shape),
                           " is missing; family ", reader_.spec().name, " needs it"));
  }
  // ERNIE stores a leading dimension of 1; nothing else differs by those.
  std::vector<uint64_t> actual = tensor->shape;
  while (actual.size() > shape.size() && actual.front() == 1) actual.erase(actual.begin());
  if (actual != shape) {
    return CorruptData(StrCat("tensor ", name, " of ", reader_.tensors().files()[tensor->file],
                              " has shape ", ShapeString(tensor->shape),
                              ", the configuration asks for ", ShapeString(shape)));
  }
  used_.insert(tensor);
  return tensor;
}

void WeightLoader::Push(Request request) {
  uint64_t& used = request.node < 0 ? common_bytes_ : node_bytes_;
  request.offset = used;
  used += AlignUp(request.bytes);
  requests_.push_back(request);
}

void WeightLoader::PushMatrix(const Request& request, MatrixView& view) {
  const uint64_t of_all = static_cast<uint64_t>(n_nodes_) * kSliceUnit;
  const uint64_t slice_rows = (request.rows + of_all - 1) / of_all * kSliceUnit;
  if (n_nodes_ == 1 || request.rows <= kSliceUnit) return Push(request);
  const uint64_t source_row = request.source_bytes / request.rows;
  view.slice_rows = static_cast<int32_t>(slice_rows);
  for (int32_t node = 0; node < n_nodes_; ++node) {
    const int32_t begin = view.SliceBegin(node), end = view.SliceEnd(node);
    if (begin == end) break;
    Request slice = request;
    slice.node = node;
    slice.rows = static_cast<uint64_t>(end - begin);
    slice.source_offset += static_cast<uint64_t>(begin) * source_row;
    slice.source_bytes = slice.rows * source_row;
    MatrixView part = view;
    part.rows = end - begin;
    slice.bytes = part.bytes();
    // All slices of a matrix begin at the same offset of their nodes' parts.
    slice.offset = node_bytes_;
    slice.stride_slot = &view.slice_stride;
    if (node > 0) slice.slot = nullptr;
    requests_.push_back(slice);
  }
  node_bytes_ += AlignUp(slice_rows * view.row_bytes);
}

uint64_t WeightLoader::NodeBytes() const {
  return (node_bytes_ + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

uint64_t WeightLoader::AddressOf(const Request& request) const {
  if (n_nodes_ == 1) return request.offset;
  const int32_t part = request.node < 0 ? n_nodes_ : request.node;
  return static_cast<uint64_t>(part) * NodeBytes() + request.offset;
}

MatrixView WeightLoader::MakeView(DType dtype, int64_t rows, int64_t cols, Use use) const {
  MatrixView view;
  view.dtype = dtype;
  view.rows = static_cast<int32_t>(rows);
  view.cols = static_cast<int32_t>(cols);
  view.row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(cols));
  const bool packs = activations_ != ActivationType::kFloat32 && use == Use::kRoundedProduct;
  const PanelFormat* const format = packs ? FindPanelFormat(dtype) : nullptr;
  if (format != nullptr) {
    view.layout = Layout::kPanels;
    view.input = InputOf(*format, activations_);
    view.row_bytes = PanelRowBytes(*format, view.cols);
  }
  return view;
}

Status WeightLoader::AddMatrix(const TensorInfo& tensor, uint64_t first_row, int64_t rows,
                               int64_t cols, MatrixView& out, Use use) {
  const DTypeInfo& info = GetDTypeInfo(tensor.dtype);
  const std::optional<uint64_t> row_bytes = DTypeBytes(tensor.dtype, static_cast<uint64_t>(cols));
  if (!info.is_weight || !row_bytes) {
    return Unsupported(StrCat("tensor ", tensor.name, ": rows of ", cols, " elements of type ",
                              info.name, " cannot be weights"));
  }
  out = MakeView(tensor.dtype, rows, cols, use);
  Request request;
  request.source = &tensor;
  request.source_offset = first_row * *row_bytes;
  request.source_bytes = static_cast<uint64_t>(rows) * *row_bytes;
  request.bytes = out.bytes();
  request.rows = static_cast<uint64_t>(rows);
  request.cols = static_cast<uint64_t>(cols);
  request.dtype = tensor.dtype;
  request.layout = out.layout;
  if (out.layout == Layout::kPanels) request.transform = Transform::kPack;
  request.slot = &out.data;
  if (use == Use::kRoundedProduct) {
    PushMatrix(request, out);
  } else {
    Push(request);
  }
  return Status();
}

Status WeightLoader::TakeMatrix(const std::string& name, int64_t rows, int64_t cols,
                                MatrixView& out, Use use) {
  COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* tensor,
                           Take(name, {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)}));
  return AddMatrix(*tensor, 0, rows, cols, out, use);
}

Status WeightLoader::AddGathered(const TensorInfo& tensor, uint64_t first, uint64_t n_source,
                                 int64_t rows, int64_t cols, uint64_t row_step,
                                 uint64_t column_step, MatrixView& out, Use use) {
  const DTypeInfo& info = GetDTypeInfo(tensor.dtype);
  if (!info.is_weight)
    return Unsupported(StrCat("tensor ", tensor.name, ": type ", info.name, " cannot be weights"));
  // Blocks cannot be turned round: they become float32.
  const bool plain = info.block_elements == 1 && (info.block_bytes == 2 || info.block_bytes == 4);
  const DType dtype = plain ? tensor.dtype : DType::kF32;
  if (first % info.block_elements != 0 || n_source % info.block_elements != 0) {
    return Unsupported(StrCat("tensor ", tensor.name, ": blocks of type ", info.name,
                              " cross the parts it must be cut into"));
  }
  out = MakeView(dtype, rows, cols, use);
  Request request;
  request.source = &tensor;
  request.source_offset = first / info.block_elements * info.block_bytes;
  request.source_bytes = n_source / info.block_elements * info.block_bytes;
  request.transform = Transform::kGather;
  request.rows = static_cast<uint64_t>(rows);
  request.cols = static_cast<uint64_t>(cols);
  request.row_step = row_step;
  request.column_step = column_step;
  request.dtype = dtype;
  request.bytes = out.bytes();
  request.layout = out.layout;
  request.slot = &out.data;
  Push(request);
  return Status();
}

Status WeightLoader::AddVector(const TensorInfo& tensor, uint64_t first, uint64_t n, uint64_t step,
                               const float*& out) {
  const DTypeInfo& info = GetDTypeInfo(tensor.dtype);
  const uint64_t n_source = (n - 1) * step + 1;
  if (!info.is_weight || info.block_elements != 1) {
    return Unsupported(
        StrCat("tensor ", tensor.name, " must be of a plain floating-point type, is ", info.name));
  }
  Request request;
  request.source = &tensor;
  request.source_offset = first * info.block_bytes;
  request.source_bytes = n_source * info.block_bytes;
  request.transform = Transform::kToFloat;
  request.rows = n;
  request.row_step = step;
  request.bytes = n * sizeof(float);
  static_assert(sizeof(const float*) == sizeof(const uint8_t*));
  request.slot = reinterpret_cast<const uint8_t**>(&out);
  Push(request);
  return Status();
}

Status WeightLoader::TakeVector(const std::string& name, int64_t n, const float*& out) {
  COLIBRI_ASSIGN_OR_RETURN(const TensorInfo* tensor, Take(name, {static_cast<uint64_t>(n)}));
  return AddVector(*tensor, 0, static_cast<uint64_t>(n), 1, out);
}

Status WeightLoader::TakeBias(const std::string& weight_name, int64_t n, bool required,
                              const float*& out) {
  constexpr std::string_view kWeight = ".weight";
  if (weight_name.size() < kWeight.size() ||
      weight_name.substr(weight_name.size() - kWeight.size()) != kWeight)
    return Status();
  const std::string name = weight_name.substr(0, weight_name.size() - kWeight.size()) + ".bias";
  if (!required && reader_.tensors().Find(name) == nullptr) return Status();
  return TakeVector(name, n, out);
}

Status WeightLoader::TakeLinear(const std::string& name, int64_t rows, int64_t cols, bool has_bias,
                                LinearWeights& out) {
  COLIBRI_RETURN_IF_ERROR(TakeMatrix(name, rows, cols, out.matrix));
  // A folder's configuration says whether there is one; a vector that contradicts it is left over
  // and refused as unused.
  if (!reader_.gguf() && !has_bias) return Status();
  return TakeBias(name, rows, has_bias, out.bias);
}

Status WeightLoader::TakeNorm(const std::string& name, int64_t n, NormKind kind, NormWeights& out) {
  COLIBRI_RETURN_IF_ERROR(TakeVector(name, n, out.weight));
  return kind == NormKind::kLayer ? TakeBias(name, n, true, out.bias) : Status();
}

Status WeightLoader::RunPack(const Request& request, uint64_t begin, uint64_t end,
                             uint8_t* out) const {
  const uint64_t panel_bytes = PanelBytes(request.dtype, request.cols),
                 row_bytes = *DTypeBytes(request.dtype, request.cols);
  const uint64_t first_row = begin / panel_bytes * kPanelRows,
                 last_row = std::min(end / panel_bytes * kPanelRows, request.rows);
  std::vector<uint8_t> rows((last_row - first_row) * row_bytes);
  COLIBRI_RETURN_IF_ERROR(
      reader_.tensors().Read(*request.source, request.source_offset + first_row * row_bytes, rows));
  PackRows(request.dtype, rows.data(), last_row - first_row, request.cols, out + begin);
  return Status();
}

Status WeightLoader::RunMxfp4(const Request& request, uint8_t* out) const {
  const TensorSource& tensors = reader_.tensors();
  std::vector<uint8_t> source(request.source_bytes);
  COLIBRI_RETURN_IF_ERROR(tensors.Read(*request.source, request.source_offset, source));
  const uint64_t blocks = request.cols / 32;
  std::vector<uint8_t> scales(((request.rows - 1) * request.row_step + 1) * blocks);
  COLIBRI_RETURN_IF_ERROR(tensors.Read(*request.scales, request.scales_offset, scales));
  const auto write_row = [&](uint64_t r, uint8_t* row) {
    for (uint64_t b = 0; b < blocks; ++b) {
      const uint64_t at = r * request.row_step * blocks + b;
      PackMxfp4Block(&source[at * 16], scales[at], row + b * kMxfp4BlockBytes);
    }
  };
  const uint64_t row_bytes = blocks * kMxfp4BlockBytes;
  if (request.layout == Layout::kRows) {
    for (uint64_t r = 0; r < request.rows; ++r) write_row(r, out + r * row_bytes);
    return Status();
  }
  std::vector<uint8_t> rows(kPanelRows * row_bytes);  // of one panel
  for (uint64_t first = 0; first < request.rows; first += kPanelRows) {
    const uint64_t n = std::min<uint64_t>(kPanelRows, request.rows - first);
    for (uint64_t r = 0; r < n; ++r) write_row(first + r, &rows[r * row_bytes]);
    PackRows(request.dtype, rows.data(), n, request.cols, out);
    out += PanelBytes(request.dtype, request.cols);
  }
  return Status();
}

Status WeightLoader::Run(const Request& request, uint64_t begin, uint64_t end,
                         uint8_t* arena) const {
  const TensorSource& tensors = reader_.tensors();
  uint8_t* out = arena + AddressOf(request);
  if (request.transform == Transform::kCopy) {
    return tensors.Read(*request.source, request.source_offset + begin, {out + begin, end - begin});
  }
  if (request.transform == Transform::kPack) return RunPack(request, begin, end, out);
  if (request.transform == Transform::kMxfp4) return RunMxfp4(request, out);
  std::vector<uint8_t> source(request.source_bytes);
  COLIBRI_RETURN_IF_ERROR(tensors.Read(*request.source, request.source_offset, source));
  const DTypeInfo& info = GetDTypeInfo(request.source->dtype);
  std::vector<float> decoded;
  const uint8_t* elements = source.data();
  if (request.transform == Transform::kToFloat || request.dtype != request.source->dtype) {
    decoded.resize(source.size() / info.block_bytes * info.block_elements);
    DequantizeReference(request.source->dtype, source.data(), decoded.data(), decoded.size());
    elements = reinterpret_cast<const uint8_t*>(decoded.data());
  }
  if (request.transform == Transform::kToFloat) {
    Gather<float>(elements, request.rows, 1, request.row_step, 1, out);
    return Status();
  }
  std::vector<uint8_t> rows(GatheredRowsBytes(request));
  uint8_t* const gathered = rows.empty() ? out : rows.data();
  if (*DTypeBytes(request.dtype, 1) == 2) {
    Gather<uint16_t>(elements, request.rows, request.cols, request.row_step, request.column_step,
                     gathered);
  } else {
    Gather<float>(elements, request.rows, request.cols, request.row_step, request.column_step,
                  gathered);
  }
  if (!rows.empty()) PackRows(request.dtype, gathered, request.rows, request.cols, out);
  return Status();
}

uint64_t WeightLoader::GatheredRowsBytes(const Request& request) {
  if (request.layout == Layout::kRows) return 0;
  return request.rows * *DTypeBytes(request.dtype, request.cols);
}

// Run takes memory of its own for what it rewrites, and nothing may be thrown in the pool's
// threads.
Status WeightLoader::RunWithinMemory(const Request& request, uint64_t begin, uint64_t end,
                                     uint8_t* arena) const {
  try {
    return Run(request, begin, end, arena);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(StrCat("tensor ", request.source->name, ": no memory for the ",
                                    FormatBytes(request.source_bytes),
                                    " that must be rewritten while they are read"));
  }
}

bool WeightLoader::Follows(const Request& first, const Request& next) {
  return first.transform == Transform::kCopy && next.transform == Transform::kCopy &&
         first.source == next.source && first.source_offset + first.bytes == next.source_offset &&
         first.node == next.node && first.offset + first.bytes == next.offset;
}

uint64_t WeightLoader::Unit(const Request& request) {
  switch (request.transform) {
    case Transform::kCopy:
      return kReadBytes;
    case Transform::kPack: {
      const uint64_t panel = PanelBytes(request.dtype, request.cols);
      return std::max<uint64_t>(kPackBytes / panel, 1) * panel;
    }
    default:
      return request.bytes;
  }
}

uint64_t WeightLoader::TransientBytes(const Request& request) {
  const DTypeInfo& source = GetDTypeInfo(request.source->dtype);
  switch (request.transform) {
    case Transform::kCopy:
      return 0;
    case Transform::kPack: {
      const uint64_t rows = Unit(request) / PanelBytes(request.dtype, request.cols) * kPanelRows;
      return std::min(rows, request.rows) * *DTypeBytes(request.dtype, request.cols);
    }
    case Transform::kMxfp4: {
      const uint64_t blocks = request.cols / 32;
      return request.source_bytes + ((request.rows - 1) * request.row_step + 1) * blocks +
             kPanelRows * blocks * kMxfp4BlockBytes;
    }
    case Transform::kToFloat:
    case Transform::kGather: {
      const bool decodes =
          request.transform == Transform::kToFloat || request.dtype != request.source->dtype;
      const uint64_t elements = request.source_bytes / source.block_bytes * source.block_elements;
      return request.source_bytes + (decodes ? elements * sizeof(float) : 0) +
             GatheredRowsBytes(request);
    }
  }
  return 0;
}

uint64_t WeightLoader::transient_bytes() const {
  uint64_t most = 0;
  for (const Request& request : requests_) most = std::max(most, TransientBytes(request));
  return most;
}

Result<Arena> WeightLoader::Load(ThreadPool& pool, std::span<const int32_t> system_nodes,
                                 const std::function<void(uint64_t, uint64_t)>& progress) {
  const uint64_t total = total_bytes();
  COLIBRI_ASSIGN_OR_RETURN(Arena arena, Arena::Create(std::max<uint64_t>(total, 1)));
  uint8_t* base = arena.Allocate(total, kAlignment);
  COLIBRI_CHECK(base != nullptr || total == 0);
  chose_nodes_ = true;
  for (uint64_t node = 0; n_nodes_ > 1 && NodeBytes() > 0 && node < system_nodes.size(); ++node) {
    chose_nodes_ =
        PreferNode(base + node * NodeBytes(), NodeBytes(), system_nodes[node]) && chose_nodes_;
  }

  // Neighbours in a file that are neighbours in memory too (a tensor's experts) are read as one:
  // the disk likes long reads.
  std::vector<Request> merged;
  for (const Request& request : requests_) {
    if (!merged.empty() && Follows(merged.back(), request)) {
      merged.back().source_bytes += request.source_bytes;
      merged.back().bytes += request.bytes;
    } else {
      merged.push_back(request);
    }
  }
  struct Job {
    const Request* request;
    uint64_t begin, end;
  };
  std::vector<Job> jobs;
  for (const Request& request : merged) {
    const uint64_t unit = Unit(request);
    for (uint64_t at = 0; at < request.bytes; at += unit)
      jobs.push_back({&request, at, std::min(at + unit, request.bytes)});
  }
  std::mutex mutex;
  Status failure;
  uint64_t done = 0;
  for (size_t first = 0; first < jobs.size();) {
    size_t last = first;
    uint64_t bytes = 0;
    while (last < jobs.size() && bytes < kStrideBytes) {
      bytes += jobs[last].end - jobs[last].begin;
      ++last;
    }
    pool.ParallelFor(static_cast<int64_t>(last - first), [&](int64_t task, int) {
      const Job& job = jobs[first + static_cast<size_t>(task)];
      Status status = RunWithinMemory(*job.request, job.begin, job.end, base);
      if (status.ok()) return;
      const std::lock_guard<std::mutex> lock(mutex);
      if (failure.ok()) failure = std::move(status);
    });
    if (!failure.ok()) return failure;
    done += bytes;
    first = last;
    if (progress) progress(done, total);
  }
  for (const Request& request : requests_) {
    if (request.slot != nullptr) *request.slot = base + AddressOf(request);
    if (request.stride_slot != nullptr) *request.stride_slot = NodeBytes();
  }
  return arena;
}

TensorNames WeightLoader::NamesIn(const Arena& arena) const {
  // Later slices have no name: a matrix is found by where its first one begins. All else follows.
  std::vector<const Request*> named;
  for (const Request& request : requests_) {
    if (request.slot != nullptr) named.push_back(&request);
  }
  std::sort(named.begin(), named.end(),
            [&](const Request* a, const Request* b) { return AddressOf(*a) < AddressOf(*b); });
  TensorNames names;
  for (const Request* request : named)
    names.Add(arena.data() + AddressOf(*request), request->source->name);
  return names;
}

}  // namespace colibri
