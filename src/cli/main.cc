// The program `colibri`.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "cli/console.h"
#include "cli/program.h"

namespace {

// A standard stream that the caller closed would lend its number to the next file that is opened.
// This one reads as empty, and writing to it fails.
void FillStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

}  // namespace

int main(int argc, char** argv) {
  FillStandardStreams();
  // A closed pipe is an error of write, which commands take as "enough".
  std::signal(SIGPIPE, SIG_IGN);
  colibri::cli::Console console;
  try {
    return static_cast<int>(
        colibri::cli::RunProgram(std::vector<std::string>(argv + 1, argv + argc), console));
  } catch (const std::bad_alloc&) {
    return static_cast<int>(
        console.Fail(colibri::ResourceExhausted("the system refused memory for the input")));
  } catch (const std::exception& error) {
    // Ours throw nothing; libraries of the command line and memory may.
    return static_cast<int>(console.Fail(colibri::StrCat("unexpected: ", error.what())));
  }
}
