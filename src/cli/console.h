// cli/console.h - where a command writes: results to standard output, everything else to standard
// error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "cli/exit_code.h"

namespace colibri::cli {

// Standard output, error and input as one command sees them. One thread.
class Console {
 public:
  Console();
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Results. Kept until Flush or until a good amount is there; Ctrl-C loses none that was flushed.
  void Write(std::string_view text);
  void Flush();
  // Whether results still reach somebody: false once a reader closed the pipe or a write failed.
  bool output_open() const { return output_error_ == 0; }

  // A line on standard error, after what was written so far. Ends a progress line first.
  void Note(std::string_view line);
  void Warn(std::string_view line);
  // "colibri: error: ..." and the exit code of a failure.
  ExitCode Fail(const Status& status);
  ExitCode Fail(std::string_view message);
  // The exit code of a command that did all it was asked for: kFailure, with the reason on standard
  // error, when results could not be written for another reason than a closed pipe.
  ExitCode Finish();

  // One line that is written over and over, on a terminal only.
  void Progress(std::string_view line);
  void EndProgress();

  bool output_is_terminal() const { return output_is_terminal_; }
  bool error_is_terminal() const { return error_is_terminal_; }
  bool input_is_terminal() const { return input_is_terminal_; }

  // Warnings of the library as lines on standard error. Valid as long as this console.
  Log MakeLog();

 private:
  void WriteError(std::string_view text);

  std::string buffer_;
  int output_error_ = 0;  // errno of the write that failed
  bool output_is_terminal_;
  bool error_is_terminal_;
  bool input_is_terminal_;
  bool progress_shown_ = false;
};

// Bytes that a command keeps of one input: standard input as a whole, a line of it, a text file.
inline constexpr size_t kMaxInputBytes = size_t{1} << 30;

// All of standard input; ResourceExhausted beyond kMaxInputBytes.
Result<std::string> ReadStandardInput();

// Writes all of `text` to a file descriptor; the errno of a failure, or 0.
int WriteAll(int fd, std::string_view text);

}  // namespace colibri::cli
