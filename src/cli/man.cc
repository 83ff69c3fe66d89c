// `colibri man`: the manual page, told from the commands' own options.
#include <string>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/help.h"

namespace colibri::cli {
namespace {

// Text as troff prints it: no line is taken for a request, and hyphens stay what they are.
std::string Roff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

std::string Preformatted(std::string_view text) {
  return StrCat(".PP\n.nf\n", Roff(text), "\n.fi\n");
}

std::string OptionParagraphs(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : VisibleOptions(app)) {
    out += StrCat(".TP\n.B ", Roff(OptionHeading(*option)), "\n", Roff(FullDescription(*option)),
                  "\n");
  }
  return out;
}

std::string ManPage(const CLI::App& program) {
  std::string out =
      StrCat(".TH COLIBRI 1 \"\" \"colibri ", COLIBRI_VERSION,
             "\" \"User Commands\"\n.SH NAME\ncolibri \\- ", Roff(program.get_description()),
             "\n.SH SYNOPSIS\n.B colibri\nCOMMAND [OPTIONS]\n.SH DESCRIPTION\n");
  out += Preformatted(program.get_footer());
  out += StrCat(".SH OPTIONS\n", OptionParagraphs(program), ".SH COMMANDS\n");
  for (const Command* command : AllCommands()) {
    const CLI::App& app = *program.get_subcommand(command->name);
    out += StrCat(".SS colibri ", command->name, " ", Roff(command->usage), "\n",
                  Roff(command->summary), ".\n", OptionParagraphs(app));
    if (*command->examples != '\0') out += Preformatted(command->examples);
  }
  return out;
}

CommandBody Add(CLI::App& app) {
  return [&app](Console& console) {
    console.Write(ManPage(*app.get_parent()));
    return console.Finish();
  };
}

}  // namespace

const Command kManCommand = {
    "man",       "Print the manual page",
    "",
    R"(Example:
  colibri man | man -l -)", Add,
};

}  // namespace colibri::cli
