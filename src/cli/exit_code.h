// cli/exit_code.h - what the program's exit code says.
#pragma once

namespace colibri::cli {

enum class ExitCode : int {
  kOk = 0,             // also when the reader of our output closed the pipe
  kFailure = 1,        // a model, an input, memory or the system; the reason is on standard error
  kUsage = 2,          // the command line itself
  kInterrupted = 130,  // Ctrl-C
};

}  // namespace colibri::cli
