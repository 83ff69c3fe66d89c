// cli/help.h - how help is laid out, and what an option is called in it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::cli {

// The word that stands for an option's value: "N" of "--threads N"; empty for a flag.
std::string ValueName(const CLI::Option& option);
// The values that it takes when they are a short list (CLI::IsMember); else empty.
std::vector<std::string> Choices(const CLI::Option& option);
// Its description with range and default.
std::string FullDescription(const CLI::Option& option);
// "-n, --max-tokens N"; names of a positional as they are.
std::string OptionHeading(const CLI::Option& option);
// Options and positionals in the order of the help; --help comes first.
std::vector<const CLI::Option*> VisibleOptions(const CLI::App& app);

// Accept numbers of a range, and say it in the help.
CLI::Validator Between(double low, double high);
CLI::Validator AtLeast(double low);
// Accepts whole numbers of 64 bits without a sign; CLI11 makes the largest one of larger ones.
CLI::Validator Unsigned64();

// `text` in lines of at most `width` columns, broken at spaces.
std::vector<std::string> WrapText(std::string_view text, size_t width);

// One block an option: heading in the left column, description wrapped in the right one.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {}

  const std::string& usage() const { return usage_; }
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_positionals(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* sub) const override;

 private:
  std::string usage_;
};

}  // namespace colibri::cli
