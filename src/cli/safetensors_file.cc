#include "cli/safetensors_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"

namespace colibri::cli {
namespace {

constexpr uint64_t kAlignment = 8;  // of the first tensor, as the format asks for

Status ErrnoStatus(const std::string& path, std::string_view what) {
  return IoError(StrCat(path, ": ", what, ": ", std::strerror(errno)));
}

std::optional<uint64_t> TensorBytes(const OutputTensor& tensor) {
  std::optional<uint64_t> bytes = tensor.element_bytes;
  for (const uint64_t dimension : tensor.shape) {
    if (bytes) bytes = CheckedMul(*bytes, dimension);
  }
  return bytes;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Create(const std::string& path,
                                                std::vector<OutputTensor> tensors) {
  nlohmann::ordered_json header;
  std::vector<uint64_t> begin = {0};
  for (const OutputTensor& tensor : tensors) {
    const std::optional<uint64_t> bytes = TensorBytes(tensor);
    const std::optional<uint64_t> end = bytes ? CheckedAdd(begin.back(), *bytes) : std::nullopt;
    if (!end) {
      return InvalidArgument(StrCat(path, ": tensor ", tensor.name, " of shape ",
                                    ShapeString(tensor.shape), " exceeds 2^64 bytes"));
    }
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin.back(), *end}}};
    begin.push_back(*end);
  }
  std::string text = header.dump();
  while (text.size() % kAlignment != 0) text += ' ';
  uint64_t length = text.size();
  std::string prefix(sizeof(length), '\0');
  for (char& byte : prefix) {
    byte = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  const std::string head = prefix + text;

  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoStatus(path, "cannot create");
  SafetensorsFile file(path, fd);
  for (const uint64_t offset : begin) file.begin_.push_back(head.size() + offset);
  COLIBRI_RETURN_IF_ERROR(
      file.WriteAt(0, {reinterpret_cast<const uint8_t*>(head.data()), head.size()}));
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(other.fd_), begin_(std::move(other.begin_)) {
  other.fd_ = -1;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ < 0) return;
  struct stat info = {};
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  ::close(fd_);
  if (regular) ::unlink(path_.c_str());
}

Status SafetensorsFile::Write(size_t tensor, uint64_t offset, std::span<const uint8_t> bytes) {
  COLIBRI_CHECK(tensor + 1 < begin_.size());
  COLIBRI_CHECK(begin_[tensor] + offset + bytes.size() <= begin_[tensor + 1]);
  return WriteAt(begin_[tensor] + offset, bytes);
}

Status SafetensorsFile::WriteAt(uint64_t offset, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(path_, StrCat("write at byte ", offset));
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status SafetensorsFile::Close() {
  if (::close(fd_) != 0) {
    const Status status = ErrnoStatus(path_, "close");
    ::unlink(path_.c_str());
    fd_ = -1;
    return status;
  }
  fd_ = -1;
  return {};
}

}  // namespace colibri::cli
