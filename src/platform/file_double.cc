#include "platform/file_double.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace colibri {

RandomAccessFile::Attempt MemoryFile::TryRead(uint64_t offset, std::span<uint8_t> out) const {
  if (offset >= bytes_.size()) return {};
  const size_t n = std::min<size_t>(out.size(), bytes_.size() - static_cast<size_t>(offset));
  std::memcpy(out.data(), bytes_.data() + offset, n);
  return {n, 0};
}

RandomAccessFile::Attempt FaultInjectingFile::TryRead(uint64_t offset,
                                                      std::span<uint8_t> out) const {
  const uint64_t count = n_reads_.fetch_add(1) + 1;
  if (plan_.interrupt_every != 0 && count % plan_.interrupt_every == 0) return {0, EINTR};
  if (plan_.fail_at_read != 0 &&
      (count == plan_.fail_at_read || (plan_.fail_afterwards && count > plan_.fail_at_read))) {
    return {0, plan_.error};
  }
  if (offset >= plan_.end_at) return {};
  size_t n = out.size();
  n = static_cast<size_t>(std::min<uint64_t>(n, plan_.end_at - offset));
  if (plan_.max_read_bytes != 0) n = std::min(n, plan_.max_read_bytes);
  return TryReadOf(*file_, offset, out.first(n));
}

FileSystem::Kind MemoryFileSystem::GetKind(const std::string& path) const {
  if (files_.contains(path)) return Kind::kFile;
  const std::string prefix = JoinPath(path, "");
  const auto it = files_.lower_bound(prefix);
  return it != files_.end() && it->first.starts_with(prefix) ? Kind::kFolder : Kind::kMissing;
}

Result<std::unique_ptr<RandomAccessFile>> MemoryFileSystem::Open(const std::string& path) const {
  const auto it = files_.find(path);
  if (it == files_.end()) return NotFound(StrCat(Printable(path, 400), ": no such file"));
  std::unique_ptr<RandomAccessFile> file = std::make_unique<MemoryFile>(path, it->second);
  if (const auto plan = plans_.find(path); plan != plans_.end()) {
    file = std::make_unique<FaultInjectingFile>(std::move(file), plan->second);
  }
  return file;
}

Result<std::vector<std::string>> MemoryFileSystem::ListFiles(const std::string& folder) const {
  const std::string prefix = JoinPath(folder, "");
  std::vector<std::string> names;
  for (auto it = files_.lower_bound(prefix); it != files_.end() && it->first.starts_with(prefix);
       ++it) {
    std::string name = it->first.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace colibri
