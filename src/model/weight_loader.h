// model/weight_loader.h - finds the tensors of a model, checks their shapes and brings them into
// memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "memory/arena.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "model/model.h"
#include "model/tensor_names.h"
#include "model/weights.h"
#include "platform/thread_pool.h"

namespace colibri {

// Two steps: Plan finds every tensor, checks it and decides where in one arena it will lie; Load
// reads all of them, in parallel, each byte once (twice where gate and up alternate in one tensor).
class WeightLoader {
 public:
  // Unless activations stay float32, matrices of the types that have panels are packed as they are
  // read. With several nodes, matrices that are multiplied are cut into a slice of rows for each.
  WeightLoader(const ConfigReader& reader, ActivationType activations, int32_t n_nodes)
      : reader_(reader), activations_(activations), n_nodes_(n_nodes) {}

  // Fills the views' shapes and types in `weights` (their data stays null until Load). Errors name
  // the tensor that is missing, has the wrong shape or is used by no rule of the family. `weights`
  // must keep its address until Load has run.
  Status Plan(const ModelConfig& config, ModelWeights& weights);

  // Memory that Load will take.
  uint64_t total_bytes() const {
    return n_nodes_ == 1 ? common_bytes_
                         : NodeBytes() * static_cast<uint64_t>(n_nodes_) + common_bytes_;
  }
  // What each thread takes beside that, at most, for what it rewrites while it reads.
  uint64_t transient_bytes() const;

  // After Load: which tensor each weight came from.
  TensorNames NamesIn(const Arena& arena) const;

  // Reads all weights into a new arena, slices into memory of their nodes where the system lets it
  // be chosen.
  //   system_nodes  [n_nodes] the system's numbers; not read where there is one
  //   progress      as in LoadOptions
  Result<Arena> Load(ThreadPool& pool, std::span<const int32_t> system_nodes,
                     const std::function<void(uint64_t, uint64_t)>& progress);
  // Of the last Load: whether all slices' memory could be chosen.
  bool chose_nodes() const { return chose_nodes_; }

 private:
  enum class Transform : uint8_t {
    kCopy,     // bytes as they are
    kToFloat,  // decoded to float32
    kGather,   // element (r, c) of the destination is element c * column_step + r * row_step of the
               // source
    kMxfp4,    // blocks and scales in two tensors into GGUF's blocks (gpt-oss folders)
    kPack,     // rows into panels (tensor/packed.h)
  };
  struct Request {
    const TensorInfo* source = nullptr;
    uint64_t source_offset = 0;  // bytes into the tensor
    uint64_t source_bytes = 0;
    Transform transform = Transform::kCopy;
    uint64_t rows = 0, cols = 0;  // of the destination, where it is a matrix
    uint64_t row_step = 0,
             column_step = 0;  // kGather, in elements; kMxfp4: row_step in rows of the source
    const TensorInfo* scales = nullptr;  // kMxfp4
    uint64_t scales_offset = 0;
    DType dtype = DType::kF32;  // of the destination
    Layout layout = Layout::kRows;
    uint64_t bytes = 0;  // of the destination
    int32_t node = -1;   // of a slice; -1: a part that all nodes share
    uint64_t offset =
        0;  // of the destination in its node's part of the arena, or in the shared one
    const uint8_t** slot = nullptr;  // where its address goes, unless it is a later slice
    size_t* stride_slot = nullptr;   // where the distance of slices goes
  };

  Status PlanModel(const ModelConfig& config, ModelWeights& weights);
  Status PlanAttention(const ModelConfig& config, int32_t layer, AttentionWeights& weights);
  Status PlanLatentAttention(const ModelConfig& config, int32_t layer, AttentionWeights& weights);
  Status PlanDense(const ModelConfig& config, int32_t layer, FfnWeights& weights);
  Status PlanMoe(const ModelConfig& config, int32_t layer, MoeWeights& weights);
  Status PlanExperts(const ModelConfig& config, int32_t layer, MoeWeights& weights);
  Status PlanFusedExperts(const ModelConfig& config, int32_t layer, MoeWeights& weights);
  Status PlanMxfp4Experts(const ModelConfig& config, int32_t layer, MoeWeights& weights);
  Status CheckAllUsed(const ModelConfig& config);

  // The tensor of that name with exactly this shape, marked as used; NotFound or CorruptData.
  Result<const TensorInfo*> Take(const std::string& name, const std::vector<uint64_t>& shape);
  // What a matrix is for: those that are multiplied by rounded activations lie in panels where
  // their type has them.
  enum class Use : uint8_t { kRoundedProduct, kOther };
  // A matrix [rows, cols] that begins at row first_row of a tensor of the given shape.
  Status TakeMatrix(const std::string& name, int64_t rows, int64_t cols, MatrixView& out,
                    Use use = Use::kRoundedProduct);
  Status AddMatrix(const TensorInfo& tensor, uint64_t first_row, int64_t rows, int64_t cols,
                   MatrixView& out, Use use = Use::kRoundedProduct);
  // The layout of such a matrix, with row_bytes of the view and the bytes it takes.
  MatrixView MakeView(DType dtype, int64_t rows, int64_t cols, Use use) const;
  // A matrix whose elements stand elsewhere: see Transform::kGather. `first` counts elements.
  Status AddGathered(const TensorInfo& tensor, uint64_t first, uint64_t n_source, int64_t rows,
                     int64_t cols, uint64_t row_step, uint64_t column_step, MatrixView& out,
                     Use use = Use::kRoundedProduct);
  // n float32 that begin at element `first` and stand `step` apart.
  Status AddVector(const TensorInfo& tensor, uint64_t first, uint64_t n, uint64_t step,
                   const float*& out);
  Status TakeVector(const std::string& name, int64_t n, const float*& out);
  // The vector beside a matrix: its name with "bias" in place of "weight"; null when the file has
  // none.
  Status TakeBias(const std::string& weight_name, int64_t n, bool required, const float*& out);
  // A matrix and, where has_bias says so or a GGUF file holds one, the bias beside it.
  Status TakeLinear(const std::string& name, int64_t rows, int64_t cols, bool has_bias,
                    LinearWeights& out);
  Status TakeNorm(const std::string& name, int64_t n, NormKind kind, NormWeights& out);
  void Push(Request request);
  // The same for a matrix [rows, cols] whose rows follow each other in the file: in slices, where
  // there are nodes.
  void PushMatrix(const Request& request, MatrixView& view);
  // A node's part of the arena, whole huge pages; the parts stand in order before the shared one.
  uint64_t NodeBytes() const;
  // What a gathered matrix takes as rows before they are packed; 0 where they are not.
  static uint64_t GatheredRowsBytes(const Request& request);
  // Where a request's destination begins in the arena.
  uint64_t AddressOf(const Request& request) const;
  // Whether `next` continues a copy, in its file and in memory.
  static bool Follows(const Request& first, const Request& next);
  // How much of a request a task may take at a time, in bytes of the destination.
  static uint64_t Unit(const Request& request);
  // What Run takes for a piece of a request, at most.
  static uint64_t TransientBytes(const Request& request);
  Status Run(const Request& request, uint64_t begin, uint64_t end, uint8_t* arena) const;
  Status RunPack(const Request& request, uint64_t begin, uint64_t end, uint8_t* out) const;
  Status RunMxfp4(const Request& request, uint8_t* out) const;
  Status RunWithinMemory(const Request& request, uint64_t begin, uint64_t end,
                         uint8_t* arena) const;

  const ConfigReader& reader_;
  const ActivationType activations_;
  bool attention_bias_ = false;
  std::vector<Request> requests_;
  std::unordered_set<const TensorInfo*> used_;
  const int32_t n_nodes_;
  bool chose_nodes_ = true;
  uint64_t node_bytes_ = 0;    // of slices, on each node
  uint64_t common_bytes_ = 0;  // of all else
};

}  // namespace colibri
