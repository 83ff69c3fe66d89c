#include "platform/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/strings.h"

namespace colibri {
namespace {

// Some systems refuse or cut single transfers near 2 GiB.
constexpr size_t kMaxTransferBytes = size_t{1} << 30;

std::string ErrnoText(int error) {
  return StrCat(std::system_category().message(error), " (errno ", error, ")");
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  // Closes now; the error that the system reports, or 0.
  int Close() { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

int OpenRetrying(const char* path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

class LocalFile final : public RandomAccessFile {
 public:
  LocalFile(std::string path, uint64_t size, Descriptor fd)
      : RandomAccessFile(std::move(path), size), fd_(std::move(fd)) {}
  int descriptor() const override { return fd_.get(); }

 protected:
  Attempt TryRead(uint64_t offset, std::span<uint8_t> out) const override {
    const size_t n = std::min(out.size(), kMaxTransferBytes);
    const ssize_t got = ::pread(fd_.get(), out.data(), n, static_cast<off_t>(offset));
    if (got < 0) return {0, errno};
    return {static_cast<size_t>(got), 0};
  }

 private:
  Descriptor fd_;
};

class LocalFiles final : public FileSystem {
 public:
  Kind GetKind(const std::string& path) const override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return Kind::kMissing;
    if (S_ISDIR(info.st_mode)) return Kind::kFolder;
    return S_ISREG(info.st_mode) ? Kind::kFile : Kind::kMissing;
  }

  Result<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) const override {
    if (path.find('\0') != std::string::npos) {
      return InvalidArgument(StrCat("a file name with a zero byte: ", Printable(path)));
    }
    // Without O_NONBLOCK a pipe without a writer would hang here.
    Descriptor fd(OpenRetrying(path.c_str(), O_RDONLY | O_NONBLOCK));
    if (fd.get() < 0) {
      const int error = errno;
      if (error == ENOENT || error == ENOTDIR) {
        return NotFound(StrCat(Printable(path, 400), ": no such file"));
      }
      return IoError(StrCat("cannot open ", Printable(path, 400), ": ", ErrnoText(error)));
    }
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) {
      const int error = errno;
      return IoError(StrCat("cannot examine ", Printable(path, 400), ": ", ErrnoText(error)));
    }
    if (!S_ISREG(info.st_mode)) {
      return InvalidArgument(StrCat(Printable(path, 400), " is no regular file"));
    }
    return std::unique_ptr<RandomAccessFile>(
        std::make_unique<LocalFile>(path, static_cast<uint64_t>(info.st_size), std::move(fd)));
  }

  Result<std::vector<std::string>> ListFiles(const std::string& folder) const override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator it(folder, error);
    for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (it->is_regular_file(ignored)) names.push_back(it->path().filename().string());
    }
    if (error) {
      return IoError(StrCat("cannot list ", Printable(folder, 400), ": ", error.message()));
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

Status RandomAccessFile::ReadAt(uint64_t offset, std::span<uint8_t> out) const {
  // Also keeps offsets within what off_t can say.
  if (offset > size_ || out.size() > size_ - offset) {
    return IoError(StrCat(Printable(path_, 400), ": ", out.size(), " bytes at offset ", offset,
                          " reach beyond the file's ", size_, " bytes"));
  }
  while (!out.empty()) {
    const Attempt attempt = TryRead(offset, out);
    if (attempt.error == EINTR) continue;
    if (attempt.error != 0) {
      return IoError(StrCat("cannot read ", Printable(path_, 400), " at offset ", offset, ": ",
                            ErrnoText(attempt.error)));
    }
    if (attempt.n_read == 0) {
      return IoError(StrCat(Printable(path_, 400), " ended at offset ", offset, ", ", out.size(),
                            " bytes too early: it was ", size_, " bytes long when opened"));
    }
    offset += attempt.n_read;
    out = out.subspan(attempt.n_read);
  }
  return {};
}

const FileSystem& LocalFileSystem() {
  static const LocalFiles files;
  return files;
}

Result<std::unique_ptr<RandomAccessFile>> OpenFile(const std::string& path) {
  return LocalFileSystem().Open(path);
}

Result<std::string> ReadWholeFile(const FileSystem& files, const std::string& path,
                                  uint64_t max_bytes) {
  COLIBRI_ASSIGN_OR_RETURN(const auto file, files.Open(path));
  if (file->size() > max_bytes) {
    return ResourceExhausted(StrCat(Printable(path, 400), " has ", file->size(),
                                    " bytes; files of its kind have at most ", max_bytes));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  COLIBRI_RETURN_IF_ERROR(file->ReadAt(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  return text;
}

std::string JoinPath(const std::string& folder, const std::string& name) {
  if (folder.empty() || folder.back() == '/') return folder + name;
  return StrCat(folder, "/", name);
}

Status WriteFileAtomically(const std::string& path,
                           const std::vector<std::span<const uint8_t>>& pieces) {
  const std::string temporary = StrCat(path, ".tmp.", static_cast<int64_t>(::getpid()));
  const auto failed = [&](std::string_view what, int error) {
    ::unlink(temporary.c_str());
    return IoError(StrCat("cannot ", what, " ", Printable(path, 400), ": ", ErrnoText(error)));
  };
  Descriptor fd(OpenRetrying(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666));
  if (fd.get() < 0) {
    const int error = errno;
    return IoError(StrCat("cannot create ", Printable(temporary, 400), ": ", ErrnoText(error)));
  }
  for (std::span<const uint8_t> piece : pieces) {
    while (!piece.empty()) {
      const ssize_t n = ::write(fd.get(), piece.data(), std::min(piece.size(), kMaxTransferBytes));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("write", errno);
      piece = piece.subspan(static_cast<size_t>(n));
    }
  }
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return failed("flush", errno);
  if (const int error = fd.Close(); error != 0) return failed("close", error);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return failed("replace", errno);
  return {};
}

}  // namespace colibri
