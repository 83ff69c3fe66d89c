// `colibri perplexity`: how well a model predicts a text.
#include <array>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/default_model.h"
#include "cli/evaluation.h"

namespace colibri::cli {
namespace {

struct Options {
  std::string model;
  EngineOptions engine;
  EvaluationFlags evaluation;
};

std::string JsonReport(nlohmann::ordered_json report, const PerplexityReport& perplexity) {
  report["perplexity"] = PerplexityJson(perplexity);
  return JsonText(report);
}

std::string TextReport(const std::string& heading, const PerplexityReport& perplexity) {
  const std::array rows = {
      ReportRow{"perplexity", perplexity.perplexity, perplexity.standard_error,
                IntervalText(perplexity.low_95, perplexity.high_95)},
      ReportRow{"its logarithm, nats a token", perplexity.nll.mean, perplexity.nll.standard_error},
  };
  return heading + ReportTable(rows);
}

ExitCode Run(const Options& options, Console& console) {
  const EvaluationFlags& flags = options.evaluation;
  const Result<std::string> path = ModelOrDefault(options.model);
  if (!path.ok()) return console.Fail(path.status());
  const Result<std::string> text = ReadEvaluationText(flags);
  if (!text.ok()) return console.Fail(text.status());
  Result<EvaluationModel> model = OpenEvaluationModel(*path, options.engine, flags, *text);
  if (!model.ok()) return console.Fail(model.status());
  Result<WindowPlan> plan = PlanWindows(model->text, flags.windows);
  if (!plan.ok()) return console.Fail(std::move(plan).status().WithContext(flags.text));
  const auto engines = LoadEvaluationEngines({&*model, 1}, console);
  if (!engines.ok()) return console.Fail(engines.status());
  Engine& engine = *engines.value()[0];

  const InterruptScope interrupt;
  const Result<PerplexityReport> perplexity =
      MeasurePerplexity(engine, model->text, *plan, ShowProgress(*plan, interrupt, console));
  if (!perplexity.ok()) return FailEvaluation(perplexity.status(), console);
  console.EndProgress();
  console.Write(flags.json ? JsonReport(EvaluationJson(engine, *model, flags, *plan), *perplexity)
                           : TextReport(EvaluationHeading(engine, *model, *plan), *perplexity));
  return console.Finish();
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("-m,--model", options->model, "The model; Colibri Nano when none is named")
      ->type_name("MODEL");
  AddEvaluationFlags(app, options->evaluation, options->engine);
  return [options](Console& console) { return Run(*options, console); };
}

}  // namespace

const Command kPerplexityCommand = {
    "perplexity",
    "Measure how well a model predicts a text",
    "[--model MODEL] --text FILE [OPTIONS]",
    R"(Perplexity is the exponential of the mean negative logarithm of the probability that the model gives
each scored token. The windows, the scored tokens and the standard error after +/- are those of llama.cpp's
perplexity tool; the interval is the exponential of the logarithm's. A rest that fills no window is left out.

Example:
  colibri perplexity --model model.gguf --text wiki.test.raw)",
    Add,
};

}  // namespace colibri::cli
