#include "base/status.h"

namespace colibri {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kCorruptData:
      return "corrupt data";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kIoError:
      return "i/o error";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message) {
  COLIBRI_CHECK(code != StatusCode::kOk);
  error_ = std::make_unique<Error>(Error{code, std::move(message)});
}

Status::Status(const Status& other)
    : error_(other.error_ ? std::make_unique<Error>(*other.error_) : nullptr) {
}

Status& Status::operator=(const Status& other) {
  if (this != &other) error_ = other.error_ ? std::make_unique<Error>(*other.error_) : nullptr;
  return *this;
}

const std::string& Status::message() const {
  static const std::string empty;
  return ok() ? empty : error_->message;
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(StatusCodeName(error_->code)) + ": " + error_->message;
}

Status Status::WithContext(std::string_view context) && {
  if (!ok()) error_->message = std::string(context) + ": " + error_->message;
  return std::move(*this);
}

Status InvalidArgument(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
Status NotFound(std::string message) {
  return Status(StatusCode::kNotFound, std::move(message));
}
Status CorruptData(std::string message) {
  return Status(StatusCode::kCorruptData, std::move(message));
}
Status Unsupported(std::string message) {
  return Status(StatusCode::kUnsupported, std::move(message));
}
Status ResourceExhausted(std::string message) {
  return Status(StatusCode::kResourceExhausted, std::move(message));
}
Status IoError(std::string message) {
  return Status(StatusCode::kIoError, std::move(message));
}
Status Cancelled(std::string message) {
  return Status(StatusCode::kCancelled, std::move(message));
}
Status Internal(std::string message) {
  return Status(StatusCode::kInternal, std::move(message));
}

}  // namespace colibri
