// cli/evaluation.h - what `perplexity` and `kld` share: their flags, and models read with a text.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/interrupt.h"
#include "engine/engine.h"
#include "engine/evaluate.h"

namespace colibri::cli {

struct EvaluationFlags {
  std::string text;  // a file; "-" is standard input
  WindowOptions windows;
  int32_t max_batch_tokens = 512;
  bool json = false;
};

// --text, --context, --stride, --chunks, --max-batch, --json, and of the engine --threads,
// --activations and --kv-type.
void AddEvaluationFlags(CLI::App& app, EvaluationFlags& flags, EngineOptions& engine);

// The text that --text names.
Result<std::string> ReadEvaluationText(const EvaluationFlags& flags);

// A model of an evaluation before its weights are read.
struct EvaluationModel {
  std::string path;
  ModelPlan plan;
  std::unique_ptr<Tokenizer> tokenizer;
  EvaluationText text;
  EngineOptions options;
};

// Reads the headers and the tokenizer of a model, and the text with it. Errors name the model.
Result<EvaluationModel> OpenEvaluationModel(const std::string& path, const EngineOptions& options,
                                            const EvaluationFlags& flags, std::string_view text);

// The engines of the models, once there is memory for all of them.
Result<std::vector<std::unique_ptr<Engine>>> LoadEvaluationEngines(
    std::span<EvaluationModel> models, Console& console);

// Shows the windows that are done, and ends the evaluation (Cancelled) on Ctrl-C.
EvaluationProgress ShowProgress(const WindowPlan& plan, const InterruptScope& interrupt,
                                Console& console);

// kInterrupted for Cancelled, else the failure.
ExitCode FailEvaluation(const Status& status, Console& console);

// What stands at the head of both reports.
nlohmann::ordered_json EvaluationJson(const Engine& engine, const EvaluationModel& model,
                                      const EvaluationFlags& flags, const WindowPlan& plan);
std::string EvaluationHeading(const Engine& engine, const EvaluationModel& model,
                              const WindowPlan& plan);

// {"value", "standard_error"}.
nlohmann::ordered_json EstimateJson(double value, double standard_error);
// {"value", "standard_error", "interval_95", "nll", "nll_standard_error"}.
nlohmann::ordered_json PerplexityJson(const PerplexityReport& report);
// JSON as text, with a line end.
std::string JsonText(const nlohmann::ordered_json& report);

// A line of a report: "perplexity       2.374103 +/- 0.012345".
struct ReportRow {
  std::string label;
  double value = 0;
  double standard_error = -1;  // below 0: none is shown
  std::string remark = {};
};
std::string ReportTable(std::span<const ReportRow> rows);
// "95 %: 2.350000 to 2.398000".
std::string IntervalText(double low, double high);

}  // namespace colibri::cli
