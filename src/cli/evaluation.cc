#include "cli/evaluation.h"

#include <iomanip>
#include <sstream>

#include "base/strings.h"
#include "cli/engine_flags.h"
#include "cli/help.h"
#include "cli/tokenizer_files.h"
#include "engine/load_tokenizer.h"

namespace colibri::cli {
namespace {

constexpr int kDigits = 6;  // as llama.cpp prints them

}  // namespace

void AddEvaluationFlags(CLI::App& app, EvaluationFlags& flags, EngineOptions& engine) {
  app.add_option("-f,--text", flags.text, "The text, UTF-8; - reads standard input")
      ->type_name("FILE")
      ->required();
  app.add_option("-c,--context", flags.windows.context,
                 "Tokens of a window; each window is computed on its own and the tokens of its "
                 "second half are scored")
      ->type_name("N")
      ->check(AtLeast(2))
      ->capture_default_str();
  app.add_option("--stride", flags.windows.stride,
                 "Start a window every N tokens and score the last N of each, instead of windows "
                 "side by side")
      ->type_name("N")
      ->check(AtLeast(1));
  app.add_option("--chunks", flags.windows.max_windows, "Stop after N windows; by default all")
      ->type_name("N")
      ->check(AtLeast(1));
  app.add_option("--max-batch", flags.max_batch_tokens,
                 "Tokens of one step; decides speed and memory, never the numbers")
      ->type_name("N")
      ->check(AtLeast(1))
      ->capture_default_str();
  app.add_flag("--json", flags.json, "Print JSON");
  AddThreadsFlag(app, engine.n_threads);
  AddPinFlag(app, engine.pin);
  AddActivationsFlag(app, engine.activations);
  // What the weights cost is measured alone unless the flag says otherwise.
  engine.kv_type = KvType::kF32;
  AddKvTypeFlag(app, engine.kv_type);
}

Result<std::string> ReadEvaluationText(const EvaluationFlags& flags) {
  return flags.text == "-" ? ReadStandardInput() : ReadTextFile(flags.text);
}

Result<EvaluationModel> OpenEvaluationModel(const std::string& path, const EngineOptions& options,
                                            const EvaluationFlags& flags, std::string_view text) {
  EvaluationModel model;
  model.path = path;
  model.options = EvaluationEngine(options, flags.windows.context, flags.max_batch_tokens);
  // Loading says again, with warnings, what there is to say about the files.
  COLIBRI_ASSIGN_OR_RETURN(const ModelFiles files, OpenModelFiles(path, Log()));
  COLIBRI_ASSIGN_OR_RETURN(model.plan, PlanModel(files, Log(), options.activations));
  Result<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(files);
  if (!tokenizer.ok()) return std::move(tokenizer).status().WithContext(path);
  model.tokenizer = std::move(tokenizer).value();
  Result<EvaluationText> encoded = EncodeForEvaluation(*model.tokenizer, text);
  if (!encoded.ok()) return std::move(encoded).status().WithContext(flags.text);
  model.text = std::move(encoded).value();
  return model;
}

Result<std::vector<std::unique_ptr<Engine>>> LoadEvaluationEngines(
    std::span<EvaluationModel> models, Console& console) {
  std::vector<ModelPlan> plans;
  std::vector<std::string> names;
  std::vector<EngineOptions> options;
  for (const EvaluationModel& model : models) {
    plans.push_back(model.plan);
    names.push_back(model.path);
    options.push_back(model.options);
  }
  COLIBRI_RETURN_IF_ERROR(AdmitTogether(plans, names, options));
  std::vector<std::unique_ptr<Engine>> engines;
  for (size_t i = 0; i < models.size(); ++i) {
    COLIBRI_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                             LoadEngine(models[i].path, options[i], console));
    engines.push_back(std::move(engine));
  }
  return engines;
}

EvaluationProgress ShowProgress(const WindowPlan& plan, const InterruptScope& interrupt,
                                Console& console) {
  return [n = plan.n_windows, &interrupt, &console](int32_t n_done) -> Status {
    if (interrupt.interrupted()) return Cancelled("interrupted");
    console.Progress(StrCat("evaluating: window ", n_done + 1, " of ", n));
    return {};
  };
}

ExitCode FailEvaluation(const Status& status, Console& console) {
  console.EndProgress();
  return status.code() == StatusCode::kCancelled ? ExitCode::kInterrupted : console.Fail(status);
}

nlohmann::ordered_json EvaluationJson(const Engine& engine, const EvaluationModel& model,
                                      const EvaluationFlags& flags, const WindowPlan& plan) {
  nlohmann::ordered_json out = {
      {"model", model.path},
      {"architecture", engine.config().architecture},
      {"isa", engine.isa()},
      {"threads", engine.n_threads()},
      {"activations", ActivationTypeName(model.options.activations)},
      {"kv_type", KvTypeName(model.options.kv_type)},
      {"text", flags.text},
      {"text_tokens", model.text.ids.size()},
      {"context", plan.context},
      {"stride", flags.windows.stride},
      {"chunks", plan.n_windows},
      {"scored_tokens", plan.n_scored()},
      {"bos", nullptr},
  };
  if (plan.bos) out["bos"] = *plan.bos;
  return out;
}

std::string EvaluationHeading(const Engine& engine, const EvaluationModel& model,
                              const WindowPlan& plan) {
  return StrCat(engine.config().architecture, ", ", engine.isa(), ", ", engine.n_threads(),
                " threads, text of ", model.text.ids.size(), " tokens, ", plan.n_windows,
                " windows of ", plan.context, ", ", plan.n_scored(), " tokens scored\n\n");
}

nlohmann::ordered_json EstimateJson(double value, double standard_error) {
  return {{"value", value}, {"standard_error", standard_error}};
}

nlohmann::ordered_json PerplexityJson(const PerplexityReport& report) {
  nlohmann::ordered_json out = EstimateJson(report.perplexity, report.standard_error);
  out["interval_95"] = {report.low_95, report.high_95};
  out["nll"] = report.nll.mean;
  out["nll_standard_error"] = report.nll.standard_error;
  return out;
}

std::string JsonText(const nlohmann::ordered_json& report) {
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string ReportTable(std::span<const ReportRow> rows) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(kDigits);
  for (const ReportRow& row : rows) {
    out << std::left << std::setw(34) << row.label << std::right << std::setw(14) << row.value;
    if (row.standard_error >= 0) out << " +/- " << row.standard_error;
    if (!row.remark.empty()) out << "   " << row.remark;
    out << "\n";
  }
  return out.str();
}

std::string IntervalText(double low, double high) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(kDigits) << "95 %: " << low << " to " << high;
  return out.str();
}

}  // namespace colibri::cli
