// platform/file_double.h - stand-ins for files and disks in tests: bytes in memory, and faults at
// chosen reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "platform/file.h"

namespace colibri {

// A file whose bytes lie in memory, owned by the caller and alive as long as this.
class MemoryFile final : public RandomAccessFile {
 public:
  MemoryFile(std::string path, std::string_view bytes)
      : RandomAccessFile(std::move(path), bytes.size()), bytes_(bytes) {}

 protected:
  Attempt TryRead(uint64_t offset, std::span<uint8_t> out) const override;

 private:
  std::string_view bytes_;
};

// What goes wrong in a FaultInjectingFile. Reads are counted from 1 in the order they come, over
// all threads.
struct FaultPlan {
  uint64_t fail_at_read = 0;     // this attempt fails with `error`; 0: none does
  bool fail_afterwards = false;  // so do all that follow
  int error = 5;                 // EIO
  uint64_t interrupt_every = 0;  // each n-th attempt fails with EINTR first
  size_t max_read_bytes = 0;     // an attempt gives at most so many bytes; 0: all
  uint64_t end_at = UINT64_MAX;  // the file ends here although it was longer when opened
};

// Hands reads on to another file, with faults. Safe from many threads.
class FaultInjectingFile final : public RandomAccessFile {
 public:
  FaultInjectingFile(std::unique_ptr<RandomAccessFile> file, FaultPlan plan)
      : RandomAccessFile(file->path(), file->size()), file_(std::move(file)), plan_(plan) {}

  // Attempts so far.
  uint64_t n_reads() const { return n_reads_.load(); }

 protected:
  Attempt TryRead(uint64_t offset, std::span<uint8_t> out) const override;

 private:
  std::unique_ptr<RandomAccessFile> file_;
  FaultPlan plan_;
  mutable std::atomic<uint64_t> n_reads_{0};
};

// A disk in memory. Add all files first; safe from many threads afterwards.
class MemoryFileSystem final : public FileSystem {
 public:
  void Add(std::string path, std::string bytes) { files_[std::move(path)] = std::move(bytes); }
  void Remove(const std::string& path) { files_.erase(path); }
  // Opened files of this path get the faults.
  void Break(std::string path, FaultPlan plan) { plans_[std::move(path)] = plan; }

  Kind GetKind(const std::string& path) const override;
  Result<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) const override;
  Result<std::vector<std::string>> ListFiles(const std::string& folder) const override;

 private:
  std::map<std::string, std::string> files_;
  std::map<std::string, FaultPlan> plans_;
};

}  // namespace colibri
