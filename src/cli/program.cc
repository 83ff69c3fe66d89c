#include "cli/program.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "cli/help.h"

namespace colibri::cli {
namespace {

constexpr std::array kCommands = {
    &kRunCommand,        &kChatCommand, &kInspectCommand, &kTokenizeCommand,   &kLogitsCommand,
    &kPerplexityCommand, &kKldCommand,  &kBenchCommand,   &kCompletionCommand, &kManCommand,
};

constexpr const char* kSummary = "Runs Mixture-of-Experts language models on this machine's CPUs.";

constexpr const char* kFooter =
    R"(A MODEL is a .gguf file (any part of a split one), or a folder with config.json and safetensors.
Where a command takes a model and none is named, it uses Colibri Nano, which comes with the program.

Results go to standard output, everything else to standard error.

Exit codes:
  0    success, also when the reader of the output closed it early
  1    a model, an input, memory or the system failed; standard error says why
  2    the command line is wrong
  130  interrupted by Ctrl-C

Environment:
  COLIBRI_MODELS      folder that holds nano/, in place of the one beside the program
  COLIBRI_FORCE_ISA   instruction set of the kernels; the default is the best that the CPU has
                      (`colibri inspect` lists them)
  COLIBRI_PIN         on or off: whether each thread keeps to one CPU, where --pin does not say

'colibri COMMAND --help' explains a command.)";

std::string UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command =
      chosen.empty() ? "colibri" : StrCat("colibri ", chosen.front()->get_name());
  std::string reason = error.what();
  // The range was checked before: what is left is a number with a fraction, or too large a one.
  constexpr std::string_view kConversion = "Could not convert: ";
  if (reason.starts_with(kConversion)) {
    reason = StrCat(reason.substr(kConversion.size()), " is no whole number, or too large a one");
  }
  if (error.get_name() == "ArgumentMismatch") {
    reason = StrCat(reason.substr(0, reason.find(':')), ": its value is missing");
  }
  return StrCat("colibri: ", reason, "\nTry '", command, " --help'.");
}

}  // namespace

std::span<const Command* const> AllCommands() {
  return kCommands;
}

std::unique_ptr<Program> MakeProgram() {
  auto program = std::make_unique<Program>();
  CLI::App& app = program->app;
  app.name("colibri");
  app.description(kSummary);
  app.footer(kFooter);
  app.formatter(std::make_shared<HelpFormatter>("COMMAND [OPTIONS]"));
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", StrCat("colibri ", COLIBRI_VERSION), "Show the version");
  app.require_subcommand(1);
  for (const Command* command : AllCommands()) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    sub->group("Commands");
    sub->footer(command->examples);
    sub->formatter(std::make_shared<HelpFormatter>(command->usage));
    program->bodies.emplace_back(sub, command->add(*sub));
  }
  return program;
}

ExitCode RunProgram(std::vector<std::string> arguments, Console& console) {
  const std::unique_ptr<Program> program = MakeProgram();
  CLI::App& app = program->app;
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes a vector
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    console.Write(chosen.empty() ? app.help() : chosen.front()->help());
    return console.Finish();
  } catch (const CLI::CallForVersion& version) {
    console.Write(StrCat(version.what(), "\n"));
    return console.Finish();
  } catch (const CLI::ParseError& error) {
    console.Note(UsageError(app, error));
    return ExitCode::kUsage;
  }
  for (auto& [sub, body] : program->bodies) {
    if (sub->parsed()) return body(console);
  }
  return ExitCode::kUsage;
}

}  // namespace colibri::cli
