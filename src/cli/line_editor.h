// cli/line_editor.h - lines that a person types, or that a pipe brings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/interrupt.h"

namespace colibri::cli {

enum class LineOutcome : uint8_t {
  kLine,
  kEnd,          // end of input
  kInterrupted,  // Ctrl-C; what was typed is gone
};

class LineReader {
 public:
  virtual ~LineReader() = default;
  // The next line, without its end. `line` is written for kLine alone. IoError names errno.
  virtual Result<LineOutcome> Read(std::string& line) = 0;
};

// A terminal: line editing and history by libedit, which shows itself on standard error. The
// history is read from `history_path` and written there as the reader goes; empty: none is kept.
std::unique_ptr<LineReader> MakeTerminalReader(std::string prompt, std::string history_path,
                                               InterruptScope& interrupt);
// A pipe or a file.
std::unique_ptr<LineReader> MakePipeReader(InterruptScope& interrupt);

// $XDG_STATE_HOME/colibri/history, or ~/.local/state/colibri/history, with the folders made; empty
// when there is no home.
std::string HistoryPath();

}  // namespace colibri::cli
