#include "cli/help.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/strings.h"

namespace colibri::cli {
namespace {

constexpr size_t kLeftColumn = 28;
constexpr size_t kLineWidth = 100;

std::string Block(std::string_view heading, std::string_view text) {
  std::string out = StrCat("  ", heading);
  const std::string indent(kLeftColumn, ' ');
  // A heading that leaves no gap gets a line of its own.
  if (out.size() + 2 > kLeftColumn) {
    out += StrCat("\n", indent);
  } else {
    out.resize(kLeftColumn, ' ');
  }
  const std::vector<std::string> lines = WrapText(text, kLineWidth - kLeftColumn);
  return StrCat(out, StrJoin(lines, StrCat("\n", indent)), "\n");
}

// CLI11 gives a type's name and what its validators say as one text with colons between.
std::string_view ValidatorText(std::string_view type) {
  const size_t colon = type.find(':');
  return colon == std::string_view::npos ? std::string_view() : type.substr(colon + 1);
}

// `preposition` stands before the range in a sentence.
CLI::Validator RangeValidator(double low, double high, const std::string& preposition,
                              const std::string& range) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<double> value = ParseDouble(text);
        if (value && *value >= low && *value <= high) return std::string();
        return StrCat(Printable(text), " is not a number ", preposition, range);
      },
      range);
}

}  // namespace

std::string ValueName(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

std::vector<std::string> Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::string_view text = ValidatorText(type);
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return {};
  text = text.substr(1, text.size() - 2);
  std::vector<std::string> choices;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    choices.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return choices;
}

std::string FullDescription(const CLI::Option& option) {
  std::vector<std::string> notes;
  const std::vector<std::string> choices = Choices(option);
  if (!choices.empty()) {
    notes.push_back(StrJoin(choices, ", "));
  } else if (const std::string type = option.get_type_name(); !ValidatorText(type).empty()) {
    notes.emplace_back(ValidatorText(type));
  }
  if (!option.get_default_str().empty()) {
    notes.push_back(StrCat("default ", option.get_default_str()));
  }
  if (option.get_required() && !option.get_positional()) notes.emplace_back("required");
  std::string text = option.get_description();
  if (!notes.empty()) text += StrCat(" (", StrJoin(notes, "; "), ")");
  return text;
}

std::string OptionHeading(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true, false);
  const std::string value = ValueName(option);
  std::string names;
  for (const char c : option.get_name(false, true))
    names += c == ',' ? std::string(", ") : std::string(1, c);
  return value.empty() ? names : StrCat(names, " ", value);
}

std::vector<const CLI::Option*> VisibleOptions(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

CLI::Validator Between(double low, double high) {
  return RangeValidator(low, high, "from ", StrCat(low, " to ", high));
}

CLI::Validator AtLeast(double low) {
  return RangeValidator(low, std::numeric_limits<double>::infinity(), "of ",
                        StrCat("at least ", low));
}

CLI::Validator Unsigned64() {
  return CLI::Validator(
      [](std::string& text) {
        uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && last == end) return std::string();
        return StrCat(Printable(text), " is not a whole number from 0 to ",
                      std::numeric_limits<uint64_t>::max());
      },
      "");
}

std::vector<std::string> WrapText(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  static_cast<void>(name);
  const CLI::App* parent = app->get_parent();
  const std::string command =
      parent == nullptr ? app->get_name() : StrCat(parent->get_name(), " ", app->get_name());
  return StrCat("\nUsage: ", command, " ", usage_, "\n");
}

std::string HelpFormatter::make_positionals(const CLI::App* app) const {
  const std::vector<const CLI::Option*> options = app->get_options(
      [](const CLI::Option* o) { return !o->get_group().empty() && o->get_positional(); });
  return options.empty() ? std::string() : make_group("Arguments", true, options);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  static_cast<void>(is_positional);
  return Block(OptionHeading(*option), FullDescription(*option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  return Block(sub->get_name(), sub->get_description());
}

}  // namespace colibri::cli
