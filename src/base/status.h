// base/status.h - how errors of input and environment travel.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace colibri {

enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller's request or configuration is wrong
  kNotFound,           // a file, tensor or key that should be there is not
  kCorruptData,        // a file contradicts itself or its format
  kUnsupported,        // valid, but outside what this build can do
  kResourceExhausted,  // memory, pages or slots would not suffice
  kIoError,            // the operating system failed a read, a map or a write
  kCancelled,
  kDeadlineExceeded,
  kInternal,  // a bug of ours that was caught
};

// The code's name as messages show it, for example "corrupt data".
std::string_view StatusCodeName(StatusCode code);

// Success, or a code with a message. A success costs one null pointer and never allocates.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : error_->code; }
  // Empty on success.
  const std::string& message() const;
  // "corrupt data: tensor x ..." or "ok".
  std::string ToString() const;
  // The same error with `context` and ": " before its message; success stays success.
  Status WithContext(std::string_view context) &&;

 private:
  struct Error {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Error> error_;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status CorruptData(std::string message);
Status Unsupported(std::string message);
Status ResourceExhausted(std::string message);
Status IoError(std::string message);
Status Cancelled(std::string message);
Status Internal(std::string message);

// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) { COLIBRI_CHECK(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  T& value() & {
    COLIBRI_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    COLIBRI_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    COLIBRI_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace colibri

#define COLIBRI_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                       \
    if (::colibri::Status status_macro_ = (expr); !status_macro_.ok()) return status_macro_; \
  } while (false)

#define COLIBRI_CONCAT_INNER(a, b) a##b
#define COLIBRI_CONCAT(a, b) COLIBRI_CONCAT_INNER(a, b)
// COLIBRI_ASSIGN_OR_RETURN(auto x, Compute()): x is the value, or the enclosing function returns
// the error.
#define COLIBRI_ASSIGN_OR_RETURN(lhs, expr) \
  COLIBRI_ASSIGN_OR_RETURN_INNER(COLIBRI_CONCAT(result_macro_, __LINE__), lhs, expr)
#define COLIBRI_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                   \
  if (!tmp.ok()) return std::move(tmp).status();       \
  lhs = std::move(tmp).value()
