// `colibri kld`: how far a model's predictions are from a reference's.
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
  std::string reference;
  EngineOptions engine;            // of the model
  EngineOptions reference_engine;  // of the reference, whose keys and values are float32
  EvaluationFlags evaluation;
};

constexpr size_t kModel = 0, kReference = 1;
constexpr double kPercent = 100;

std::string JsonReport(nlohmann::ordered_json report, const std::string& reference,
                       const DivergenceReport& result) {
  report["reference"] = reference;
  nlohmann::ordered_json kld =
      EstimateJson(result.divergence.mean, result.divergence.standard_error);
  const double margin = kNormal95 * result.divergence.standard_error;
  kld["interval_95"] = {result.divergence.mean - margin, result.divergence.mean + margin};
  kld["median"] = result.median;
  kld["quantile_90"] = result.quantile_90;
  kld["quantile_99"] = result.quantile_99;
  kld["maximum"] = result.maximum;
  report["kld"] = kld;
  report["perplexity"] = PerplexityJson(result.model);
  report["reference_perplexity"] = PerplexityJson(result.reference);
  report["log_perplexity_ratio"] =
      EstimateJson(result.log_ratio.mean, result.log_ratio.standard_error);
  report["same_top"] = EstimateJson(result.same_top.mean, result.same_top.standard_error);
  report["probability_difference_rms"] = EstimateJson(
      result.probability_difference_rms.mean, result.probability_difference_rms.standard_error);
  return JsonText(report);
}

ReportRow PercentRow(std::string label, const Estimate& share) {
  return {std::move(label), kPercent * share.mean, kPercent * share.standard_error};
}

std::string TextReport(const std::string& heading, const DivergenceReport& result) {
  const Estimate& kld = result.divergence;
  const double margin = kNormal95 * kld.standard_error;
  const std::array rows = {
      ReportRow{"KL divergence, mean", kld.mean, kld.standard_error,
                IntervalText(kld.mean - margin, kld.mean + margin)},
      ReportRow{"  median", result.median},
      ReportRow{"  90 % are below", result.quantile_90},
      ReportRow{"  99 % are below", result.quantile_99},
      ReportRow{"  maximum", result.maximum},
      ReportRow{"perplexity, model", result.model.perplexity, result.model.standard_error,
                IntervalText(result.model.low_95, result.model.high_95)},
      ReportRow{"perplexity, reference", result.reference.perplexity,
                result.reference.standard_error,
                IntervalText(result.reference.low_95, result.reference.high_95)},
      ReportRow{"ln(model / reference)", result.log_ratio.mean, result.log_ratio.standard_error},
      PercentRow("same most likely token, %", result.same_top),
      PercentRow("difference of probability, RMS, %", result.probability_difference_rms),
  };
  return heading + ReportTable(rows);
}

Result<std::vector<EvaluationModel>> OpenModels(const Options& options) {
  COLIBRI_ASSIGN_OR_RETURN(const std::string path, ModelOrDefault(options.model));
  COLIBRI_ASSIGN_OR_RETURN(const std::string text, ReadEvaluationText(options.evaluation));
  std::vector<EvaluationModel> models;
  COLIBRI_ASSIGN_OR_RETURN(EvaluationModel model,
                           OpenEvaluationModel(path, options.engine, options.evaluation, text));
  models.push_back(std::move(model));
  COLIBRI_ASSIGN_OR_RETURN(
      EvaluationModel reference,
      OpenEvaluationModel(options.reference, options.reference_engine, options.evaluation, text));
  models.push_back(std::move(reference));
  COLIBRI_RETURN_IF_ERROR(CheckSameText(models[kModel].text, *models[kModel].tokenizer,
                                        models[kReference].text, *models[kReference].tokenizer));
  return models;
}

ExitCode Run(Options& options, Console& console) {
  const EvaluationFlags& flags = options.evaluation;
  options.reference_engine.n_threads = options.engine.n_threads;
  options.reference_engine.pin = options.engine.pin;
  // The reference is what the file's own values give.
  options.reference_engine.activations = ActivationType::kFloat32;
  options.reference_engine.kv_type = KvType::kF32;
  Result<std::vector<EvaluationModel>> models = OpenModels(options);
  if (!models.ok()) return console.Fail(models.status());
  const EvaluationModel& model = models.value()[kModel];
  Result<WindowPlan> plan = PlanWindows(model.text, flags.windows);
  if (!plan.ok()) return console.Fail(std::move(plan).status().WithContext(flags.text));
  const auto engines = LoadEvaluationEngines(*models, console);
  if (!engines.ok()) return console.Fail(engines.status());
  Engine& engine = *engines.value()[kModel];

  const InterruptScope interrupt;
  const Result<DivergenceReport> result =
      MeasureDivergence(engine, *engines.value()[kReference], model.text, *plan,
                        ShowProgress(*plan, interrupt, console));
  if (!result.ok()) return FailEvaluation(result.status(), console);
  console.EndProgress();
  console.Write(flags.json ? JsonReport(EvaluationJson(engine, model, flags, *plan),
                                        options.reference, *result)
                           : TextReport(EvaluationHeading(engine, model, *plan), *result));
  return console.Finish();
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("-m,--model", options->model, "The model; Colibri Nano when none is named")
      ->type_name("MODEL");
  app.add_option("-r,--reference", options->reference,
                 "The model that it is compared with, of the same tokenizer")
      ->type_name("MODEL")
      ->required();
  AddEvaluationFlags(app, options->evaluation, options->engine);
  return [options](Console& console) { return Run(*options, console); };
}

}  // namespace

const Command kKldCommand = {
    "kld",
    "Measure how far a model's predictions are from a reference's",
    "[--model MODEL] --reference MODEL --text FILE [OPTIONS]",
    R"(The mean over the scored tokens of the Kullback-Leibler divergence KL(reference || model) of the two
predictions, in nats, with its standard error after +/- and the 95 % interval; how often both find the same
token most likely; and how much the probability of the token that follows differs. Windows and scored tokens
are those of `colibri perplexity`. Both models are in memory at once.

Example:
  colibri kld --model model-q4_k_m.gguf --reference model-bf16.gguf --text wiki.test.raw)",
    Add,
};

}  // namespace colibri::cli
