// format/gguf_cursor.h - reads a GGUF header from front to back. Internal to format/.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "platform/file.h"

namespace colibri {

// Buffered: headers hold hundreds of thousands of short strings. Errors name file and offset.
class GgufCursor {
 public:
  explicit GgufCursor(const RandomAccessFile& file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_.size() - position_; }
  const RandomAccessFile& file() const { return file_; }

  // Little-endian numbers, as the machine has them.
  template <typename T>
  requires std::is_arithmetic_v<T> Status ReadNumber(T& out) {
    const uint8_t* bytes = nullptr;
    COLIBRI_RETURN_IF_ERROR(Take(sizeof(T), bytes));
    std::memcpy(&out, bytes, sizeof(T));
    return {};
  }

  // A length of 64 bits and as many bytes. `what` says in errors what the string is.
  Status ReadString(std::string& out, uint64_t max_bytes, std::string_view what);

  // An error at this place.
  Status Corrupt(std::string_view what) const;
  Status TooMuch(std::string_view what) const;

 private:
  // The next n bytes, n at most kBufferBytes.
  Status Take(size_t n, const uint8_t*& bytes) {
    if (n > buffer_end_ - buffer_begin_) COLIBRI_RETURN_IF_ERROR(Refill(n));
    bytes = buffer_.data() + buffer_begin_;
    buffer_begin_ += n;
    position_ += n;
    return {};
  }
  Status Refill(size_t n);

  static constexpr size_t kBufferBytes = 256 << 10;

  const RandomAccessFile& file_;
  uint64_t position_ = 0;
  std::vector<uint8_t> buffer_;
  size_t buffer_begin_ = 0;
  size_t buffer_end_ = 0;
};

}  // namespace colibri
