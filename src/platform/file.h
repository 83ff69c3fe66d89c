// platform/file.h - files that are read at any position, behind interfaces that tests can replace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace colibri {

// One file, open for reading. Its size is taken when it is opened. Safe from many threads.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // As it was opened; errors name it.
  const std::string& path() const { return path_; }
  // Bytes.
  uint64_t size() const { return size_; }
  // The system's descriptor for maps and asynchronous reads, owned by this object; -1 when there is
  // none (a double of a test).
  virtual int descriptor() const { return -1; }

  // Reads exactly out.size() bytes from byte `offset`, repeating short and interrupted reads. Fails
  // with IoError, naming path, offset and the system's reason, or the end of the file that was
  // reached too early.
  Status ReadAt(uint64_t offset, std::span<uint8_t> out) const;

 protected:
  RandomAccessFile(std::string path, uint64_t size) : path_(std::move(path)), size_(size) {}

  // What one system call did: bytes read (0 at the end of the file), or an errno value.
  struct Attempt {
    size_t n_read = 0;
    int error = 0;
  };
  virtual Attempt TryRead(uint64_t offset, std::span<uint8_t> out) const = 0;
  // Lets a double call what it wraps.
  static Attempt TryReadOf(const RandomAccessFile& file, uint64_t offset, std::span<uint8_t> out) {
    return file.TryRead(offset, out);
  }

 private:
  std::string path_;
  uint64_t size_;
};

// Where names are turned into files. Safe from many threads.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  enum class Kind { kMissing, kFile, kFolder };
  // What lies at `path`; links are followed. What is neither a regular file nor a folder counts as
  // a missing one.
  virtual Kind GetKind(const std::string& path) const = 0;
  // Fails with NotFound when there is no such file, InvalidArgument when it is no regular file,
  // IoError otherwise.
  virtual Result<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) const = 0;
  // The names of the regular files in a folder, sorted.
  virtual Result<std::vector<std::string>> ListFiles(const std::string& folder) const = 0;
};

// The machine's own. Lives for ever.
const FileSystem& LocalFileSystem();

// LocalFileSystem().Open.
Result<std::unique_ptr<RandomAccessFile>> OpenFile(const std::string& path);

// The whole of a file as text; ResourceExhausted when it is longer than max_bytes.
Result<std::string> ReadWholeFile(const FileSystem& files, const std::string& path,
                                  uint64_t max_bytes);

// "folder/name", without doubling the slash.
std::string JoinPath(const std::string& folder, const std::string& name);

// Replaces `path` by a file of these pieces, one after the other: written beside it, flushed to the
// disk, then renamed, so that no reader ever sees a part. Fails with IoError, naming the path and
// the system's reason; nothing is left behind then.
Status WriteFileAtomically(const std::string& path,
                           const std::vector<std::span<const uint8_t>>& pieces);

}  // namespace colibri
