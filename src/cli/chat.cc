// `colibri chat`: a conversation.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/default_model.h"
#include "cli/engine_flags.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/prompt.h"
#include "engine/session.h"

namespace colibri::cli {
namespace {

struct Options {
  ActivationType activations = ActivationType::kInt8;
  std::string model;
  std::string system;
  bool has_system = false;
  bool stats = false;
  GenerationFlags generation;
  int32_t n_threads = 0;
  std::optional<PinMode> pin = {};
  KvType kv_type = kDefaultKvType;
  int32_t max_context = 0;
};

// The conversation and what is said about it.
class Chat {
 public:
  Chat(const Options& options, const Prompter& prompter, Session& session,
       InterruptScope& interrupt, Console& console)
      : options_(options),
        prompter_(prompter),
        session_(session),
        interrupt_(interrupt),
        console_(console),
        system_(options.system),
        has_system_(options.has_system),
        show_stats_(options.stats) {
    Reset();
  }

  // Handles a line. False ends the conversation.
  bool Take(const std::string& line);
  // Whether a message had no answer.
  bool failed() const { return failed_; }

 private:
  struct SlashCommand {
    std::string_view name;
    std::string_view argument;
    std::string_view text;
    bool (Chat::*run)(std::string_view argument);
  };
  static const std::array<SlashCommand, 5>& SlashCommands();

  bool Help(std::string_view argument);
  bool StartAnew(std::string_view argument);
  bool SetSystem(std::string_view argument);
  bool ToggleStats(std::string_view argument);
  bool Exit(std::string_view argument);

  void Reset();
  void Say(std::string text);
  Result<GenerateResult> Answer(GenerateRequest request);

  const Options& options_;
  const Prompter& prompter_;
  Session& session_;
  InterruptScope& interrupt_;
  Console& console_;
  std::string system_;
  bool has_system_;
  bool show_stats_;
  bool failed_ = false;
  std::vector<ChatMessage> messages_;
};

const std::array<Chat::SlashCommand, 5>& Chat::SlashCommands() {
  static constexpr std::array<SlashCommand, 5> kCommands = {{
      {"/help", "", "this list", &Chat::Help},
      {"/reset", "", "forget the conversation", &Chat::StartAnew},
      {"/system", " TEXT", "set the system message (none: the model's own) and start anew",
       &Chat::SetSystem},
      {"/stats", "", "show or hide the speed of each answer", &Chat::ToggleStats},
      {"/exit", "", "end; Ctrl-D does too", &Chat::Exit},
  }};
  return kCommands;
}

bool Chat::Take(const std::string& line) {
  if (line.find_first_not_of(" \t") == std::string::npos) return true;
  if (line.front() != '/') {
    Say(line);
    return true;
  }
  if (line.starts_with("//")) {  // a message that begins with a slash
    Say(line.substr(1));
    return true;
  }
  const size_t space = std::min(line.find(' '), line.size());
  const std::string_view name = std::string_view(line).substr(0, space);
  std::string_view argument = std::string_view(line).substr(space);
  argument.remove_prefix(std::min(argument.find_first_not_of(' '), argument.size()));
  for (const SlashCommand& command : SlashCommands()) {
    if (command.name == name) return (this->*command.run)(argument);
  }
  console_.Note(StrCat("unknown command ", Printable(name), "; /help lists them"));
  return true;
}

bool Chat::Help(std::string_view) {
  for (const SlashCommand& command : SlashCommands()) {
    std::string line = StrCat("  ", command.name, command.argument);
    line.resize(18, ' ');
    console_.Note(StrCat(line, command.text));
  }
  console_.Note("  //...           a message that begins with a slash");
  console_.Note("Ctrl-C stops an answer and keeps what it said.");
  return true;
}

bool Chat::StartAnew(std::string_view) {
  Reset();
  console_.Note("The conversation starts anew.");
  return true;
}

bool Chat::SetSystem(std::string_view argument) {
  system_ = argument;
  has_system_ = !argument.empty();
  return StartAnew({});
}

bool Chat::ToggleStats(std::string_view) {
  show_stats_ = !show_stats_;
  console_.Note(show_stats_ ? "Speed is shown." : "Speed is hidden.");
  return true;
}

bool Chat::Exit(std::string_view) {
  return false;
}

void Chat::Reset() {
  messages_.clear();
  if (has_system_) messages_.push_back({"system", system_});
  session_.Reset();
}

Result<GenerateResult> Chat::Answer(GenerateRequest request) {
  COLIBRI_ASSIGN_OR_RETURN(request.prompt, prompter_.EncodeMessages(messages_));
  request.cancel = interrupt_.flag();
  request.on_prefill = [this](int32_t done, int32_t all) {
    console_.Progress(StrCat("reading: ", done, " of ", all, " tokens"));
  };
  request.on_delta = [this](const GenerateDelta& delta) {
    console_.Write(delta.text);
    console_.Flush();
    return console_.output_open();
  };
  COLIBRI_ASSIGN_OR_RETURN(GenerateResult result, session_.Generate(std::move(request)));
  if (result.finish == FinishReason::kError) return result.status;
  return result;
}

// A message without an answer leaves no trace in the conversation.
void Chat::Say(std::string text) {
  messages_.push_back({"user", std::move(text)});
  const GenerateRequest request = MakeRequest(options_.generation);
  Result<GenerateResult> result = Answer(request);
  console_.EndProgress();
  if (!result.ok()) {
    messages_.pop_back();
    failed_ = true;
    static_cast<void>(console_.Fail(result.status()));
    return;
  }
  if (!result->text.ends_with('\n')) console_.Write("\n");
  console_.Flush();
  if (interrupt_.interrupted()) {
    interrupt_.Clear();
    console_.Note("(stopped)");
  }
  if (result->finish == FinishReason::kContext) {
    console_.Warn(
        StrCat("the context of ", session_.max_tokens(), " tokens is full; /reset starts anew"));
  }
  if (show_stats_) console_.Note(StatsLine(request, *result));
  messages_.push_back({"assistant", std::move(result->text)});
}

ExitCode Converse(Chat& chat, LineReader& reader, Console& console) {
  std::string line;
  while (console.output_open()) {
    const Result<LineOutcome> outcome = reader.Read(line);
    if (!outcome.ok()) return console.Fail(outcome.status());
    if (*outcome == LineOutcome::kEnd) break;
    if (*outcome == LineOutcome::kInterrupted) {
      if (!console.input_is_terminal()) return ExitCode::kInterrupted;
      continue;
    }
    if (!chat.Take(line)) break;
  }
  const ExitCode code = console.Finish();
  return chat.failed() && !console.input_is_terminal() ? ExitCode::kFailure : code;
}

ExitCode Run(const Options& options, Console& console) {
  const Result<std::string> model = ModelOrDefault(options.model);
  if (!model.ok()) return console.Fail(model.status());
  EngineOptions engine_options;
  engine_options.n_threads = options.n_threads;
  engine_options.pin = options.pin;
  engine_options.activations = options.activations;
  engine_options.kv_type = options.kv_type;
  engine_options.max_context = options.max_context;
  engine_options.max_sequences = 1;
  engine_options.check_chat_template = TemplateCheck(*model, /*raw=*/false);
  const Result<std::unique_ptr<Engine>> engine = LoadEngine(*model, engine_options, console);
  if (!engine.ok()) return console.Fail(engine.status());
  const Result<Prompter> prompter = Prompter::Make(**engine, *model, /*raw=*/false);
  if (!prompter.ok()) return console.Fail(prompter.status());
  if (!(*prompter).is_chat()) {
    return console.Fail(Unsupported(StrCat(
        *model, ": has no chat template, so it knows no turns; `colibri run` continues a text")));
  }
  const Result<std::unique_ptr<Session>> session = Session::Create(**engine, {});
  if (!session.ok()) return console.Fail(session.status());

  InterruptScope interrupt;
  std::unique_ptr<LineReader> reader;
  if (console.input_is_terminal()) {
    console.Note(StrCat((*engine)->config().architecture, ", context ", (*engine)->max_context(),
                        " tokens, ", (*engine)->n_threads(), " threads, ", (*engine)->isa(),
                        ". /help lists commands."));
    reader = MakeTerminalReader("> ", HistoryPath(), interrupt);
  } else {
    reader = MakePipeReader(interrupt);
  }
  Chat chat(options, *prompter, **session, interrupt, console);
  return Converse(chat, *reader, console);
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model,
                 "A .gguf file or a Hugging Face folder; Colibri Nano when none is named");
  CLI::Option* system =
      app.add_option("--system", options->system, "System message of the conversation")
          ->type_name("TEXT");
  AddGenerationFlags(app, options->generation);
  AddContextFlag(app, options->max_context);
  AddThreadsFlag(app, options->n_threads);
  AddPinFlag(app, options->pin);
  AddActivationsFlag(app, options->activations);
  AddKvTypeFlag(app, options->kv_type);
  app.add_flag("--stats", options->stats, "Say after each answer how fast it came");
  return [options, system](Console& console) {
    options->has_system = system->count() > 0;
    return Run(*options, console);
  };
}

}  // namespace

const Command kChatCommand = {
    "chat",
    "Talk with a model, turn by turn",
    "[OPTIONS] [MODEL]",
    R"(Each line is a message; /help lists the commands. Ctrl-C stops an answer and keeps the conversation, Ctrl-D
ends it. Lines are edited as in a shell, and their history is kept in $XDG_STATE_HOME/colibri/history (or
~/.local/state). When standard input is not a terminal, its lines are the messages.

Examples:
  colibri chat
  printf 'What is 6x7?\nAnd 6x8?\n' | colibri chat)",
    Add,
};

}  // namespace colibri::cli
