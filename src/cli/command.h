// cli/command.h - the commands of the program, one row of a table each.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>

#include "cli/console.h"
#include "cli/exit_code.h"

namespace colibri::cli {

// What a command does once its options are parsed. Called at most once.
using CommandBody = std::function<ExitCode(Console&)>;

struct Command {
  const char* name;
  const char* summary;   // one line
  const char* usage;     // what follows the name: "[OPTIONS] MODEL"
  const char* examples;  // lines below the options; may be empty
  // Declares the options. The body owns what they are parsed into.
  CommandBody (*add)(CLI::App& app);
};

extern const Command kRunCommand;
extern const Command kChatCommand;
extern const Command kInspectCommand;
extern const Command kTokenizeCommand;
extern const Command kLogitsCommand;
extern const Command kPerplexityCommand;
extern const Command kKldCommand;
extern const Command kBenchCommand;
extern const Command kCompletionCommand;
extern const Command kManCommand;

// All of them, in the order of the help.
std::span<const Command* const> AllCommands();

}  // namespace colibri::cli
