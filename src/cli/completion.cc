// `colibri completion SHELL`: what the shells need to know, told from the commands' own options.
#include <memory>
#include <string>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/help.h"

namespace colibri::cli {
namespace {

bool TakesFile(const CLI::Option& option) {
  const std::string value =
      option.get_positional() ? option.get_name(true, false) : ValueName(option);
  return value.find("FILE") != std::string::npos || value.find("MODEL") != std::string::npos;
}

std::vector<std::string> Names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(StrCat("-", name));
  for (const std::string& name : option.get_lnames()) names.push_back(StrCat("--", name));
  return names;
}

std::vector<const CLI::App*> Subcommands(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App*) { return true; });
}

// ' becomes '\'' within a word in single quotes, for bash and zsh.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += R"('\'')";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string OptionWords(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : VisibleOptions(app)) {
    for (const std::string& name : Names(*option)) words.push_back(name);
  }
  return StrJoin(words, " ");
}

std::string BashScript(const CLI::App& program) {
  std::vector<std::string> commands;
  std::string values;  // cases of "command:option" that take a value
  std::string words;   // cases of "command"
  for (const CLI::App* sub : Subcommands(program)) {
    const std::string& command = sub->get_name();
    commands.push_back(command);
    std::string positional_choices;
    bool takes_files = false;
    for (const CLI::Option* option : VisibleOptions(*sub)) {
      const std::string choices = StrJoin(Choices(*option), " ");
      if (option->get_positional()) {
        if (!choices.empty()) positional_choices = " " + choices;
        takes_files = takes_files || TakesFile(*option);
        continue;
      }
      if (ValueName(*option).empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : Names(*option)) patterns.push_back(StrCat(command, ":", name));
      const std::string action =
          !choices.empty()     ? StrCat("COMPREPLY=($(compgen -W '", choices, "' -- \"$cur\"))")
          : TakesFile(*option) ? "COMPREPLY=($(compgen -f -- \"$cur\"))"
                               : "COMPREPLY=()";
      values += StrCat("    ", StrJoin(patterns, "|"), ") ", action, "; return ;;\n");
    }
    words += StrCat("    ", command, ") words=", Quoted(OptionWords(*sub) + positional_choices),
                    takes_files ? " files=1" : "", " ;;\n");
  }
  const std::string all = StrJoin(commands, " ");
  return StrCat(R"(# bash completion of colibri; load it with: source <(colibri completion bash)
_colibri() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words= files= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in )",
                StrJoin(commands, "|"), R"() command=${COMP_WORDS[i]}; break ;; esac
  done
  case $command:$prev in
)",
                values, R"(  esac
  case $command in
    '') words=')",
                all, " ", OptionWords(program), R"(' ;;
)",
                words, R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ -n $files && $cur != -* ]]; then COMPREPLY+=($(compgen -f -- "$cur")); fi
}
complete -o filenames -F _colibri colibri
)");
}

// The text of a description within _arguments' "[...]".
std::string ZshDescription(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string ZshAction(const CLI::Option& option) {
  const std::vector<std::string> choices = Choices(option);
  if (!choices.empty()) return StrCat("(", StrJoin(choices, " "), ")");
  return TakesFile(option) ? "_files" : "";
}

std::string ZshScript(const CLI::App& program) {
  std::string commands;
  std::string cases;
  for (const CLI::App* sub : Subcommands(program)) {
    commands += StrCat("    ", Quoted(StrCat(sub->get_name(), ":", sub->get_description())), "\n");
    cases += StrCat("    ", sub->get_name(), ") _arguments");
    for (const CLI::Option* option : VisibleOptions(*sub)) {
      const std::string text = ZshDescription(option->get_description());
      if (option->get_positional()) {
        cases += StrCat(" \\\n      ", Quoted(StrCat("::", text, ":", ZshAction(*option))));
        continue;
      }
      const std::string value = ValueName(*option);
      for (const std::string& name : Names(*option)) {
        const std::string argument =
            value.empty() ? std::string() : StrCat(":", value, ":", ZshAction(*option));
        cases += StrCat(" \\\n      ", Quoted(StrCat("*", name, "[", text, "]", argument)));
      }
    }
    cases += " ;;\n";
  }
  return StrCat(R"(#compdef colibri
# zsh completion of colibri; load it with: source <(colibri completion zsh)
_colibri() {
  local -a commands=(
)",
                commands, R"(  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=${words[2]}
  shift words
  (( CURRENT-- ))
  case $command in
)",
                cases, R"(  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _colibri "$@"; else compdef _colibri colibri; fi
)");
}

// A word in single quotes, as fish reads it.
std::string FishQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string FishOption(const CLI::Option& option) {
  std::string line;
  for (const std::string& name : option.get_snames()) line += StrCat(" -s ", name);
  for (const std::string& name : option.get_lnames()) line += StrCat(" -l ", name);
  const std::vector<std::string> choices = Choices(option);
  if (!choices.empty()) {
    line += StrCat(" -x -a ", FishQuoted(StrJoin(choices, " ")));
  } else if (!ValueName(option).empty()) {
    line += TakesFile(option) ? " -r -F" : " -x";
  }
  return StrCat(line, " -d ", FishQuoted(option.get_description()));
}

std::string FishScript(const CLI::App& program) {
  std::string out =
      "# fish completion of colibri; load it with: colibri completion fish | source\n"
      "complete -c colibri -n __fish_use_subcommand -f\n";
  for (const CLI::Option* option : VisibleOptions(program)) {
    out += StrCat("complete -c colibri -n __fish_use_subcommand", FishOption(*option), "\n");
  }
  for (const CLI::App* sub : Subcommands(program)) {
    out += StrCat("complete -c colibri -n __fish_use_subcommand -a ", sub->get_name(), " -d ",
                  FishQuoted(sub->get_description()), "\n");
    const std::string when = StrCat("'__fish_seen_subcommand_from ", sub->get_name(), "'");
    for (const CLI::Option* option : VisibleOptions(*sub)) {
      const std::string choices = StrJoin(Choices(*option), " ");
      if (!option->get_positional()) {
        out += StrCat("complete -c colibri -n ", when, FishOption(*option), "\n");
      } else if (!choices.empty()) {
        out += StrCat("complete -c colibri -n ", when, " -f -a ", FishQuoted(choices), "\n");
      }
    }
  }
  return out;
}

CommandBody Add(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "The shell that is to complete")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>{"bash", "zsh", "fish"}));
  return [shell, &app](Console& console) {
    const CLI::App& program = *app.get_parent();
    console.Write(*shell == "bash"  ? BashScript(program)
                  : *shell == "zsh" ? ZshScript(program)
                                    : FishScript(program));
    return console.Finish();
  };
}

}  // namespace

const Command kCompletionCommand = {
    "completion", "Print a script that teaches a shell to complete this program's command lines",
    "SHELL",
    R"(Examples:
  source <(colibri completion bash)
  colibri completion fish > ~/.config/fish/completions/colibri.fish)", Add,
};

}  // namespace colibri::cli
