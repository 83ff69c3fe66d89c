#include "cli/help.h"

#include <gtest/gtest.h>

#include "cli/program.h"

namespace colibri::cli {
namespace {

using Lines = std::vector<std::string>;

TEST(WrapText, BreaksAtSpacesAndKeepsLongWordsWhole) {
  EXPECT_EQ(WrapText("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(WrapText("incomprehensible no", 5), (Lines{"incomprehensible", "no"}));
  EXPECT_EQ(WrapText("", 5), (Lines{""}));
}

TEST(Between, SaysItsRangeAndRefusesWhatIsOutside) {
  CLI::App app;
  double value = 0;
  CLI::Option* option =
      app.add_option("--x", value, "A number")->type_name("X")->check(Between(0, 1.5));
  EXPECT_EQ(FullDescription(*option), "A number (0 to 1.5)");
  EXPECT_EQ(OptionHeading(*option), "--x X");
  EXPECT_NO_THROW(app.parse("--x 1.5"));
  EXPECT_THROW(app.parse("--x 1.6"), CLI::ValidationError);
  EXPECT_THROW(app.parse("--x much"), CLI::ParseError);
}

TEST(AtLeast, SaysItsBoundAndRefusesWhatIsBelow) {
  CLI::App app;
  int value = 0;
  CLI::Option* option = app.add_option("-n,--number", value, "A count")->check(AtLeast(1));
  EXPECT_EQ(FullDescription(*option), "A count (at least 1)");
  EXPECT_NO_THROW(app.parse("--number 7"));
  EXPECT_THROW(app.parse("--number 0"), CLI::ParseError);
  EXPECT_THROW(app.parse("--number 99999999999"), CLI::ParseError);
}

TEST(Unsigned64, TakesEveryNumberOf64BitsAndNoLargerOne) {
  CLI::App app;
  uint64_t value = 0;
  CLI::Option* option = app.add_option("--seed", value, "A seed")->check(Unsigned64());
  EXPECT_EQ(FullDescription(*option), "A seed");
  EXPECT_NO_THROW(app.parse("--seed 18446744073709551615"));
  EXPECT_EQ(value, UINT64_MAX);
  for (const char* text : {"--seed 18446744073709551616", "--seed=-1", "--seed 1.5", "--seed x"}) {
    EXPECT_THROW(app.parse(text), CLI::ParseError) << text;
  }
}

TEST(Choices, AreThoseOfASet) {
  CLI::App app;
  std::string value;
  CLI::Option* option = app.add_option("--shell", value, "A shell")
                            ->check(CLI::IsMember(std::vector<std::string>{"bash", "fish"}));
  EXPECT_EQ(Choices(*option), (Lines{"bash", "fish"}));
  EXPECT_EQ(FullDescription(*option), "A shell (bash, fish)");
}

TEST(Program, HasEveryCommandWithASummaryAndDocumentedOptions) {
  const std::unique_ptr<Program> program = MakeProgram();
  for (const Command* command : AllCommands()) {
    const CLI::App* app = program->app.get_subcommand(command->name);
    EXPECT_FALSE(app->get_description().empty()) << command->name;
    for (const CLI::Option* option : VisibleOptions(*app)) {
      EXPECT_FALSE(option->get_description().empty())
          << command->name << " " << OptionHeading(*option);
    }
  }
}

}  // namespace
}  // namespace colibri::cli
