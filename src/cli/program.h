// cli/program.h - the command line as a whole: its commands, its help, its exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/exit_code.h"

namespace colibri::cli {

struct Program {
  CLI::App app;
  std::vector<std::pair<CLI::App*, CommandBody>> bodies;  // of each command
};

std::unique_ptr<Program> MakeProgram();

// Parses the arguments (without the program's name) and runs the command that they name. Help and
// version go to standard output; a wrong command line is explained on standard error.
ExitCode RunProgram(std::vector<std::string> arguments, Console& console);

}  // namespace colibri::cli
