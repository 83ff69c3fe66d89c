#include "cli/console.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace colibri::cli {
namespace {

constexpr size_t kFlushBytes = 1 << 16;

}  // namespace

int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

Console::Console()
    : output_is_terminal_(::isatty(STDOUT_FILENO) == 1),
      error_is_terminal_(::isatty(STDERR_FILENO) == 1),
      input_is_terminal_(::isatty(STDIN_FILENO) == 1) {
}

Console::~Console() {
  Flush();
  EndProgress();
}

void Console::Write(std::string_view text) {
  if (!output_open()) return;
  buffer_.append(text);
  if (buffer_.size() >= kFlushBytes) Flush();
}

void Console::Flush() {
  if (buffer_.empty()) return;
  EndProgress();
  if (output_open()) output_error_ = WriteAll(STDOUT_FILENO, buffer_);
  buffer_.clear();
}

void Console::WriteError(std::string_view text) {
  // There is nobody to tell when standard error is gone.
  static_cast<void>(WriteAll(STDERR_FILENO, text));
}

void Console::Note(std::string_view line) {
  Flush();
  EndProgress();
  WriteError(StrCat(line, "\n"));
}

void Console::Warn(std::string_view line) {
  Note(StrCat("colibri: warning: ", line));
}

ExitCode Console::Fail(const Status& status) {
  return Fail(status.ToString());
}

ExitCode Console::Fail(std::string_view message) {
  Note(StrCat("colibri: error: ", message));
  return ExitCode::kFailure;
}

ExitCode Console::Finish() {
  Flush();
  if (output_error_ == 0 || output_error_ == EPIPE) return ExitCode::kOk;
  return Fail(StrCat("standard output: ", std::strerror(output_error_)));
}

void Console::Progress(std::string_view line) {
  if (!error_is_terminal_) return;
  // \033[K clears what a longer line before left behind.
  WriteError(StrCat("\r", line, "\033[K"));
  progress_shown_ = true;
}

void Console::EndProgress() {
  if (!progress_shown_) return;
  WriteError("\r\033[K");
  progress_shown_ = false;
}

Log Console::MakeLog() {
  return Log([this](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) Warn(line);
  });
}

Result<std::string> ReadStandardInput() {
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n == 0) return text;
    if (n < 0) {
      if (errno == EINTR) continue;
      return IoError(StrCat("standard input: ", std::strerror(errno)));
    }
    text.append(buffer.data(), static_cast<size_t>(n));
    if (text.size() > kMaxInputBytes) {
      return ResourceExhausted(
          StrCat("standard input is longer than ", FormatBytes(kMaxInputBytes)));
    }
  }
}

}  // namespace colibri::cli
