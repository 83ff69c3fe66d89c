// format/gguf.h - GGUF files, version 2 and 3, one or a split set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "format/metadata.h"
#include "format/tensor_source.h"
#include "platform/file.h"

namespace colibri {

// What a file's header may ask of us; far above what any model has.
inline constexpr uint64_t kMaxGgufKeys = 1 << 16;
inline constexpr uint64_t kMaxGgufTensors = 1 << 20;
inline constexpr uint64_t kMaxGgufKeyBytes = 65535;  // the format's own limit
inline constexpr uint64_t kMaxGgufTensorNameBytes = 1024;
inline constexpr uint32_t kMaxGgufDims = 4;  // the format's own limit
inline constexpr uint64_t kMaxGgufStringBytes = 64 << 20;
inline constexpr uint64_t kMaxGgufArrayElements = 1 << 24;  // of all lists of a file together
inline constexpr uint64_t kMaxGgufMetadataBytes = 1 << 30;
inline constexpr uint32_t kMaxGgufArrayDepth = 4;
inline constexpr uint64_t kMaxGgufAlignment = 1 << 20;

struct GgufModel {
  Metadata metadata;  // of the first file
  std::unique_ptr<TensorSource> tensors;
};

// `path`: a whole model, or any part of a split set "NAME-0000I-of-0000N.gguf", whose siblings are
// looked for beside it. Every part is opened and checked: counts and lengths against caps and the
// file's size, names and keys for repetition, every tensor's range against its file. Shapes are
// turned round, so that the slowest dimension comes first. Lists of lists become RawJson.
// Fails with NotFound (naming the missing part), IoError, CorruptData, Unsupported (version 1, big
// endian, an element type that is unknown or was removed from the format) or ResourceExhausted (a
// cap); the message names file, offset, key or tensor.
Result<GgufModel> OpenGguf(const FileSystem& files, const std::string& path);

// True when the file starts as GGUF files do. IoError when it can't be read.
Result<bool> IsGguf(const RandomAccessFile& file);

}  // namespace colibri
