// format/safetensors.h - tensors from safetensors files, one or many.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "format/tensor_source.h"
#include "platform/file.h"

namespace colibri {

// What a header may ask of us. The first is the reference reader's own limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr uint64_t kMaxSafetensorsIndexBytes = 256 << 20;
inline constexpr size_t kMaxSafetensorsDims = 16;
inline constexpr size_t kMaxSafetensorsShards = 10'000;

// The format's name of a type, "BF16"; nothing for a type that it does not have.
std::optional<std::string_view> SafetensorsDTypeName(DType dtype);

// One file. Reads and checks its header: ranges cover the data exactly once, sizes agree with
// shapes, types are known. Fails with NotFound, IoError, CorruptData, Unsupported (an unknown type)
// or ResourceExhausted; the message names file, tensor and what would be right.
Result<std::unique_ptr<TensorSource>> OpenSafetensorsFile(const FileSystem& files,
                                                          const std::string& path);

// A Hugging Face folder, looked through as transformers does: model.safetensors, else
// model.safetensors.index.json and every shard that it names, else all .safetensors files there if
// no tensor is in two of them. All shards are opened and checked; a tensor that lies in another
// shard than the index says, or that the index does not know, is CorruptData. NotFound when the
// folder has no safetensors file.
Result<std::unique_ptr<TensorSource>> OpenSafetensorsFolder(const FileSystem& files,
                                                            const std::string& folder,
                                                            const Log& log);

}  // namespace colibri
