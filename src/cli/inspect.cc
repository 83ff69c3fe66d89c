// `colibri inspect`: what a model is and what it takes, without loading it.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/plan_json.h"
#include "engine/engine.h"
#include "kernels/select.h"

namespace colibri::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model;
  bool plan = false;
  bool json = false;
  bool no_tensors = false;
  int32_t n_threads = 0;
  ActivationType activations = ActivationType::kInt8;
  KvType kv_type = kDefaultKvType;
  int32_t max_context = 0;
};

struct TypeTotal {
  uint64_t n_tensors = 0;
  uint64_t n_bytes = 0;
};

std::map<std::string, TypeTotal> TotalsByType(const TensorSource& tensors) {
  std::map<std::string, TypeTotal> totals;
  for (const TensorInfo& tensor : tensors.tensors()) {
    TypeTotal& total = totals[std::string(DTypeName(tensor.dtype))];
    ++total.n_tensors;
    total.n_bytes += tensor.n_bytes;
  }
  return totals;
}

Json FilesJson(const ModelFiles& files) {
  Json types = Json::object();
  uint64_t n_bytes = 0;
  for (const auto& [type, total] : TotalsByType(*files.tensors)) {
    types[type] = {{"tensors", total.n_tensors}, {"bytes", total.n_bytes}};
    n_bytes += total.n_bytes;
  }
  return {{"path", files.path},
          {"format", files.tensors->format()},
          {"files", files.tensors->files()},
          {"n_tensors", files.tensors->tensors().size()},
          {"tensor_bytes", n_bytes},
          {"types", types}};
}

Json TensorsJson(const TensorSource& source) {
  Json out = Json::array();
  for (const TensorInfo& tensor : source.tensors()) {
    out.push_back({{"name", tensor.name},
                   {"type", DTypeName(tensor.dtype)},
                   {"shape", tensor.shape},
                   {"bytes", tensor.n_bytes},
                   {"file", source.files()[tensor.file]},
                   {"offset", tensor.offset}});
  }
  return out;
}

uint64_t KvBytesPerToken(const ModelPlan& plan, KvType type) {
  return MakeKvLayout(plan.config, type).page_bytes / static_cast<uint64_t>(kPageTokens);
}

Json CostJson(const ModelPlan& plan, KvType kv_type) {
  return {{"total_parameters", plan.total_parameters},
          {"active_parameters", plan.active_parameters},
          {"bytes_per_token", plan.bytes_per_token},
          {"flops_per_token", plan.flops_per_token},
          {"kv_bytes_per_token", KvBytesPerToken(plan, kv_type)}};
}

Json MemoryJson(const MemoryPlan& memory) {
  return {{"context", memory.options.max_context}, {"sequences", memory.options.max_sequences},
          {"threads", memory.options.n_threads},   {"kv_type", KvTypeName(memory.options.kv_type)},
          {"weight_bytes", memory.weight_bytes},   {"kv_bytes", memory.kv_bytes},
          {"scratch_bytes", memory.scratch_bytes}, {"loading_bytes", memory.loading_bytes},
          {"total_bytes", memory.total_bytes()},   {"budget_bytes", memory.budget_bytes}};
}

Json LayersJson(const ModelConfig& config) {
  Json out = Json::array();
  for (const LayerPlan& layer : config.layers) out.push_back(LayerJson(layer));
  return out;
}

Json KernelsJson() {
  Json out = Json::array();
  for (const KernelTableChoice& choice : AllKernels()) {
    out.push_back({{"name", choice.table->name}, {"runs_here", choice.runnable}});
  }
  return out;
}

// Everything about the model, as far as its files could be read. The text report prints it too.
struct Report {
  const ModelFiles* files = nullptr;
  std::optional<ModelPlan> plan;
  std::optional<MemoryPlan> memory;
};

std::string JsonText(const Options& options, const Report& report) {
  Json out = FilesJson(*report.files);
  if (report.plan) {
    out["config"] = ConfigJson(report.plan->config);
    out.update(CostJson(*report.plan, options.kv_type));
  }
  if (report.memory) out["memory"] = MemoryJson(*report.memory);
  out["kernels"] = KernelsJson();
  if (report.plan && options.plan) out["layers"] = LayersJson(report.plan->config);
  if (!options.no_tensors) out["tensors"] = TensorsJson(*report.files->tensors);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// "17.5 M".
std::string Count(uint64_t n) {
  struct Unit {
    double size;
    const char* name;
  };
  for (const Unit unit : {Unit{1e12, " T"}, Unit{1e9, " G"}, Unit{1e6, " M"}, Unit{1e3, " k"}}) {
    if (static_cast<double>(n) < unit.size) continue;
    const auto tenths = static_cast<uint64_t>(static_cast<double>(n) / unit.size * 10 + 0.5);
    return StrCat(tenths / 10, ".", tenths % 10, unit.name);
  }
  return StrCat(n);
}

// Names in one column, what they say in the next.
void Row(std::string& out, std::string_view name, std::string_view text) {
  constexpr size_t kColumn = 14;
  std::string left(name);
  left.resize(std::max(left.size() + 1, kColumn), ' ');
  out += StrCat(left, text, "\n");
}

void FilesText(const ModelFiles& files, std::string& out) {
  const TensorSource& source = *files.tensors;
  Row(out, "path", Printable(files.path, 4096));
  uint64_t n_bytes = 0;
  std::vector<std::string> types;
  for (const auto& [type, total] : TotalsByType(source)) {
    n_bytes += total.n_bytes;
    types.push_back(StrCat(type, " ", FormatBytes(total.n_bytes), " (", total.n_tensors, ")"));
  }
  Row(out, "format",
      StrCat(source.format(), ", ", source.files().size(),
             source.files().size() == 1 ? " file, " : " files, ", source.tensors().size(),
             " tensors, ", FormatBytes(n_bytes)));
  Row(out, "types", StrJoin(types, ", "));
}

void ModelText(const ModelPlan& plan, KvType kv_type, std::string& out) {
  Json config = ConfigJson(plan.config);
  const Json ropes = config["ropes"];
  Row(out, "architecture", StrCat(plan.config.architecture, " (", plan.config.family, ")"));
  for (const char* key : {"family", "architecture", "ropes"}) config.erase(key);
  Row(out, "model", OneLine(config));
  for (size_t i = 0; i < ropes.size(); ++i) Row(out, StrCat("rope ", i), OneLine(ropes[i]));
  Row(out, "parameters",
      StrCat(Count(plan.total_parameters), ", ", Count(plan.active_parameters), " a token"));
  Row(out, "a token",
      StrCat("reads ", FormatBytes(plan.bytes_per_token), " of weights, takes ",
             Count(plan.flops_per_token), " operations, keeps ",
             FormatBytes(KvBytesPerToken(plan, kv_type)), " of keys and values"));
}

void MemoryText(const MemoryPlan& memory, std::string& out) {
  Row(out, "memory",
      StrCat(FormatBytes(memory.total_bytes()), " for a run with context ",
             memory.options.max_context, " and ", memory.options.n_threads, " threads: weights ",
             FormatBytes(memory.weight_bytes), ", keys and values ", FormatBytes(memory.kv_bytes),
             ", scratch ", FormatBytes(memory.scratch_bytes)));
}

void KernelsText(std::string& out) {
  std::vector<std::string> names;
  for (const KernelTableChoice& choice : AllKernels()) {
    names.push_back(StrCat(choice.table->name, choice.runnable ? "" : " (not on this CPU)"));
  }
  Row(out, "kernels", StrJoin(names, ", "));
}

void LayersText(const ModelConfig& config, std::string& out) {
  out += "\n";
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const Json layer = LayerJson(config.layers[i]);
    Row(out, StrCat("layer ", i), StrCat("attention: ", OneLine(layer["attention"])));
    Row(out, "", StrCat("ffn: ", OneLine(layer["ffn"])));
  }
}

void TensorsText(const TensorSource& source, std::string& out) {
  size_t name_width = 0;
  size_t shape_width = 0;
  for (const TensorInfo& tensor : source.tensors()) {
    name_width = std::max(name_width, Printable(tensor.name, 256).size());
    shape_width = std::max(shape_width, ShapeString(tensor.shape).size());
  }
  out += "\n";
  for (const TensorInfo& tensor : source.tensors()) {
    std::string line = Printable(tensor.name, 256);
    line.resize(name_width + 2, ' ');
    line += DTypeName(tensor.dtype);
    line.resize(std::max(line.size() + 1, name_width + 11), ' ');
    line += ShapeString(tensor.shape);
    line.resize(name_width + 11 + shape_width + 2, ' ');
    line += StrCat(tensor.n_bytes, " bytes");
    if (source.files().size() > 1) line += StrCat("  ", source.files()[tensor.file]);
    out += line + "\n";
  }
}

std::string PlainText(const Options& options, const Report& report) {
  std::string out;
  FilesText(*report.files, out);
  if (report.plan) ModelText(*report.plan, options.kv_type, out);
  if (report.memory) MemoryText(*report.memory, out);
  KernelsText(out);
  if (report.plan && options.plan) LayersText(report.plan->config, out);
  if (!options.no_tensors) TensorsText(*report.files->tensors, out);
  return out;
}

ExitCode Run(const Options& options, Console& console) {
  const Log log = console.MakeLog();
  const Result<ModelFiles> files = OpenModelFiles(options.model, log);
  if (!files.ok()) return console.Fail(files.status());

  // A model that cannot be run is shown as far as it can be read; what is wrong decides the exit
  // code.
  Report report;
  report.files = &*files;
  Status wrong;
  Result<ModelPlan> plan = PlanModel(*files, log, options.activations);
  if (plan.ok()) {
    report.plan = *std::move(plan);
    EngineOptions engine_options;
    engine_options.n_threads = options.n_threads;
    engine_options.activations = options.activations;
    engine_options.kv_type = options.kv_type;
    engine_options.max_context = options.max_context;
    engine_options.max_sequences = 1;
    Result<MemoryPlan> memory = PlanMemory(*report.plan, engine_options, log);
    if (memory.ok()) {
      report.memory = *std::move(memory);
    } else {
      wrong = std::move(memory).status();
    }
  } else {
    wrong = std::move(plan).status();
  }
  console.Write(options.json ? JsonText(options, report) : PlainText(options, report));
  if (!wrong.ok()) return console.Fail(wrong);
  return console.Finish();
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "A .gguf file or a Hugging Face folder")->required();
  app.add_flag("--plan", options->plan, "Show the resolved plan of every layer");
  app.add_flag("--json", options->json, "Print JSON");
  app.add_flag("--no-tensors", options->no_tensors, "Leave out the list of tensors");
  AddContextFlag(app, options->max_context);
  AddThreadsFlag(app, options->n_threads);
  AddActivationsFlag(app, options->activations);
  AddKvTypeFlag(app, options->kv_type);
  return [options](Console& console) { return Run(*options, console); };
}

}  // namespace

const Command kInspectCommand = {
    "inspect",
    "Show what a model is, its tensors and plan, and the memory that a run takes",
    "MODEL [OPTIONS]",
    R"(Reads headers alone. A model that cannot be run is shown as far as it can be read; the reason is on
standard error, and the exit code is 1.

Example:
  colibri inspect model.gguf --plan)",
    Add,
};

}  // namespace colibri::cli
