// `colibri run`: one prompt, one answer.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/default_model.h"
#include "cli/engine_flags.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"
#include "cli/prompt.h"
#include "engine/session.h"

namespace colibri::cli {
namespace {

struct Options {
  ActivationType activations = ActivationType::kInt8;
  std::string first;   // the prompt where it stands alone, else the model
  std::string second;  // the prompt
  CLI::Option* second_option = nullptr;
  bool raw = false;
  std::string system;
  CLI::Option* system_option = nullptr;
  GenerationFlags generation;
  int32_t n_threads = 0;
  std::optional<PinMode> pin = {};
  KvType kv_type = kDefaultKvType;
  int32_t max_context = 0;
  bool json = false;
  bool stats = false;
};

Result<std::string> PromptText(const Options& options) {
  const std::string& prompt = options.second_option->count() > 0 ? options.second : options.first;
  if (prompt != "-") return prompt;
  COLIBRI_ASSIGN_OR_RETURN(std::string text, ReadStandardInput());
  // What `echo` and editors add at the end is no part of a question.
  if (!options.raw && text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::vector<int32_t>> PromptIds(const Options& options, const Engine& engine,
                                       const std::string& model, std::string text) {
  const bool has_system = options.system_option->count() > 0;
  COLIBRI_ASSIGN_OR_RETURN(const Prompter prompter, Prompter::Make(engine, model, options.raw));
  if (!prompter.is_chat()) {
    if (has_system) {
      return InvalidArgument("--system: a text to continue has no place for a system message");
    }
    return prompter.EncodeText(text);
  }
  std::vector<ChatMessage> messages;
  if (has_system) messages.push_back({"system", options.system});
  messages.push_back({"user", std::move(text)});
  return prompter.EncodeMessages(messages);
}

std::string JsonReport(const Engine& engine, const GenerateRequest& request,
                       const GenerateResult& result) {
  nlohmann::ordered_json report = {
      {"text", result.text},
      {"tokens", result.tokens},
      {"finish", FinishReasonName(result.finish)},
      {"n_prompt", result.n_prompt},
      {"prefill_s", result.prefill_s},
      {"decode_s", result.decode_s},
      {"architecture", engine.config().architecture},
      {"isa", engine.isa()},
      {"threads", engine.n_threads()},
  };
  if (request.sampling.temperature > 0) report["seed"] = request.sampling.seed;
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Streams the answer, as long as somebody reads it.
Result<GenerateResult> Answer(Session& session, GenerateRequest request, bool streams,
                              Console& console) {
  request.on_prefill = [&console](int32_t done, int32_t all) {
    console.Progress(StrCat("reading the prompt: ", done, " of ", all, " tokens"));
  };
  request.on_delta = [&console, streams](const GenerateDelta& delta) {
    if (!streams) return true;
    console.Write(delta.text);
    console.Flush();
    return console.output_open();
  };
  Result<GenerateResult> result = session.Generate(std::move(request));
  console.EndProgress();
  return result;
}

bool LooksLikeModel(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  return (path.ends_with(".gguf") && fs::exists(path, error)) ||
         fs::exists(fs::path(path) / "config.json", error);
}

ExitCode Run(const Options& options, Console& console) {
  const bool prompt_alone = options.second_option->count() == 0;
  if (prompt_alone && LooksLikeModel(options.first)) {
    console.Note(StrCat("colibri: ", Printable(options.first, 4096),
                        " is a model, and the prompt is missing\nTry 'colibri run --help'."));
    return ExitCode::kUsage;
  }
  const Result<std::string> model = prompt_alone ? FindDefaultModel() : Result(options.first);
  if (!model.ok()) return console.Fail(model.status());
  Result<std::string> text = PromptText(options);
  if (!text.ok()) return console.Fail(text.status());

  EngineOptions engine_options;
  engine_options.n_threads = options.n_threads;
  engine_options.pin = options.pin;
  engine_options.activations = options.activations;
  engine_options.kv_type = options.kv_type;
  engine_options.max_context = options.max_context;
  engine_options.max_sequences = 1;
  engine_options.check_chat_template = TemplateCheck(*model, options.raw);
  const Result<std::unique_ptr<Engine>> engine = LoadEngine(*model, engine_options, console);
  if (!engine.ok()) return console.Fail(engine.status());
  Result<std::vector<int32_t>> prompt = PromptIds(options, **engine, *model, *std::move(text));
  if (!prompt.ok()) return console.Fail(prompt.status());
  const Result<std::unique_ptr<Session>> session = Session::Create(**engine, {});
  if (!session.ok()) return console.Fail(session.status());

  InterruptScope interrupt;
  GenerateRequest request = MakeRequest(options.generation);
  request.prompt = *std::move(prompt);
  request.cancel = interrupt.flag();
  const Result<GenerateResult> result = Answer(**session, request, !options.json, console);
  if (!result.ok()) return console.Fail(result.status());

  if (options.json) {
    console.Write(JsonReport(**engine, request, *result));
  } else if (!result->text.ends_with('\n')) {
    console.Write("\n");
  }
  console.Flush();
  if (options.stats) console.Note(StatsLine(request, *result));
  if (result->finish == FinishReason::kError) return console.Fail(result->status);
  if (result->finish == FinishReason::kContext) {
    console.Warn(StrCat("the answer ends here because the context of ", (*engine)->max_context(),
                        " tokens is full"));
  }
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  return console.Finish();
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->first,
                 "A .gguf file or a Hugging Face folder; Colibri Nano when only a prompt is given")
      ->required();
  options->second_option =
      app.add_option("PROMPT", options->second, "The prompt; - reads it from standard input");
  app.add_flag("--raw", options->raw,
               "The prompt is text to continue: no chat format is put around it");
  options->system_option =
      app.add_option("--system", options->system, "System message before the prompt")
          ->type_name("TEXT");
  AddGenerationFlags(app, options->generation);
  AddContextFlag(app, options->max_context);
  AddThreadsFlag(app, options->n_threads);
  AddPinFlag(app, options->pin);
  AddActivationsFlag(app, options->activations);
  AddKvTypeFlag(app, options->kv_type);
  app.add_flag("--json", options->json, "Print one JSON object at the end instead of the text");
  app.add_flag("--stats", options->stats, "Say on standard error how fast it went");
  return [options](Console& console) { return Run(*options, console); };
}

}  // namespace

const Command kRunCommand = {
    "run",
    "Answer a prompt, as its text comes",
    "[OPTIONS] [MODEL] PROMPT",
    R"(A model whose chat template is ChatML gets the prompt as a user's message, one without a template as text
to continue. Put -- before a prompt that begins with a dash.

Examples:
  colibri run "What is 23 + 58?"
  colibri run model.gguf "Tell me a story." --temp 0.8 --seed 1
  git diff | colibri run model.gguf - --system "Summarise this change.")",
    Add,
};

}  // namespace colibri::cli
