// The program `colibri`.
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "cli/console.h"
#include "cli/program.h"

int main(int argc, char** argv) {
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
