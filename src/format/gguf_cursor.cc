#include "format/gguf_cursor.h"

#include <algorithm>

#include "base/strings.h"

namespace colibri {

Status GgufCursor::Corrupt(std::string_view what) const {
  return CorruptData(StrCat(Printable(file_.path(), 400), ": offset ", position_, ": ", what));
}

Status GgufCursor::TooMuch(std::string_view what) const {
  return ResourceExhausted(
      StrCat(Printable(file_.path(), 400), ": offset ", position_, ": ", what));
}

Status GgufCursor::Refill(size_t n) {
  if (n > remaining()) {
    return Corrupt(StrCat("the file ends within the header: ", n, " bytes are needed, ",
                          remaining(), " are left"));
  }
  const size_t kept = buffer_end_ - buffer_begin_;
  if (buffer_.empty()) {
    buffer_.resize(static_cast<size_t>(std::min<uint64_t>(kBufferBytes, file_.size())));
  }
  std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, kept);
  const size_t fresh =
      static_cast<size_t>(std::min<uint64_t>(buffer_.size() - kept, remaining() - kept));
  buffer_begin_ = 0;
  buffer_end_ = kept;
  COLIBRI_RETURN_IF_ERROR(file_.ReadAt(position_ + kept, {buffer_.data() + kept, fresh}));
  buffer_end_ += fresh;
  return {};
}

Status GgufCursor::ReadString(std::string& out, uint64_t max_bytes, std::string_view what) {
  uint64_t length = 0;
  COLIBRI_RETURN_IF_ERROR(ReadNumber(length));
  if (length > remaining()) {
    return Corrupt(StrCat(what, " of ", length, " bytes reaches beyond the end of the file (",
                          remaining(), " bytes are left)"));
  }
  if (length > max_bytes) {
    return TooMuch(StrCat(what, " of ", length, " bytes; at most ", max_bytes, " are allowed"));
  }
  out.resize(static_cast<size_t>(length));
  size_t done = 0;
  while (done < out.size()) {
    const size_t n = std::min(out.size() - done, kBufferBytes);
    const uint8_t* bytes = nullptr;
    COLIBRI_RETURN_IF_ERROR(Take(n, bytes));
    std::memcpy(out.data() + done, bytes, n);
    done += n;
  }
  return {};
}

}  // namespace colibri
