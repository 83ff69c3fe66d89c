// `colibri bench`: how fast a model runs here, and what a token costs.
#include <algorithm>
#include <array>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/default_model.h"
#include "cli/engine_flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/measure.h"
#include "cli/token_ids.h"
#include "engine/engine.h"

namespace colibri::cli {
namespace {

struct Options {
  ActivationType activations = ActivationType::kInt8;
  std::string model;
  int32_t n_context = 0;  // before the prompt, not measured
  int32_t n_prompt = 512;
  int32_t n_generate = 64;
  int32_t batch = 1;
  int32_t n_threads = 0;
  std::optional<PinMode> pin = {};
  KvType kv_type = kDefaultKvType;
  int32_t repeat = 3;
  bool json = false;
};

constexpr int32_t kMaxBatchTokens = 512;  // of a prefill step

// What one run measured.
struct RunFigures {
  double load_s = 0;
  double prefill_s = 0;
  double decode_s = 0;
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  double peak_rss_bytes = 0;
  double weight_bytes = 0;
  double huge_page_bytes = 0;
  double bytes_per_token = 0;
  double flops_per_token = 0;
  double expert_calls = 0;
  double expert_calls_per_token_dispatch = 0;
  double prefill_moe_jobs_a_layer = 0;
  double prefill_route_share = 0;  // of the time of layers with experts
  double decode_moe_jobs_a_layer = 0;
  double decode_route_share = 0;
};

struct Figure {
  const char* key;  // of the JSON
  double RunFigures::*value;
  const char* label;  // of the table
  const char* unit;
};
constexpr std::array kFigures = {
    Figure{"load_s", &RunFigures::load_s, "load", "s"},
    Figure{"prefill_tokens_per_s", &RunFigures::prefill_tokens_per_s, "prefill", "tokens/s"},
    Figure{"decode_tokens_per_s", &RunFigures::decode_tokens_per_s, "decode", "tokens/s"},
    Figure{"peak_rss_bytes", &RunFigures::peak_rss_bytes, "peak memory", "bytes"},
    Figure{"weight_bytes", &RunFigures::weight_bytes, "weights", "bytes"},
    Figure{"huge_page_bytes", &RunFigures::huge_page_bytes, "weights on 2 MiB pages", "bytes"},
    Figure{"bytes_per_token", &RunFigures::bytes_per_token, "weights read a token", "bytes"},
    Figure{"flops_per_token", &RunFigures::flops_per_token, "operations a token", ""},
    Figure{"expert_calls", &RunFigures::expert_calls, "expert calls", ""},
    Figure{"expert_calls_per_token_dispatch", &RunFigures::expert_calls_per_token_dispatch,
           "expert calls, if token by token", ""},
    Figure{"prefill_moe_jobs_a_layer", &RunFigures::prefill_moe_jobs_a_layer,
           "waits a MoE layer, prefill", ""},
    Figure{"prefill_route_share", &RunFigures::prefill_route_share,
           "routing's share of it, prefill", ""},
    Figure{"decode_moe_jobs_a_layer", &RunFigures::decode_moe_jobs_a_layer,
           "waits a MoE layer, decode", ""},
    Figure{"decode_route_share", &RunFigures::decode_route_share, "routing's share of it, decode",
           ""},
};

// What stays the same over all runs.
struct Setup {
  std::string model;
  std::string architecture;
  std::string isa;
  int32_t n_threads = 0;
  bool pinned = false;
};

// Steps B sequences with ids of no meaning: the same work as text, with nothing to end it.
class Workload {
 public:
  Workload(const Options& options, Engine& engine)
      : options_(options),
        engine_(engine),
        vocab_(static_cast<size_t>(engine.vocab_size())),
        batch_(static_cast<size_t>(options.batch)),
        logits_(batch_ * vocab_),
        results_(batch_),
        items_(batch_) {}

  Status Start() {
    for (int32_t b = 0; b < options_.batch; ++b) {
      const int32_t n = options_.n_context + options_.n_prompt + options_.n_generate;
      COLIBRI_ASSIGN_OR_RETURN(const SequenceId id, engine_.CreateSequence(n));
      sequences_.push_back(id);
      ids_.push_back(SyntheticIds(n, engine_.vocab_size(), static_cast<uint64_t>(b)));
    }
    return {};
  }

  // Touches scratch memory and the first sequence's cache: a page's first touch costs the system's
  // time, which a program that serves for long pays once.
  Status WarmUp() {
    const int32_t n = std::min(options_.n_context + options_.n_prompt, kMaxBatchTokens);
    for (size_t b = 0; b < batch_; ++b) {
      items_[0] = {sequences_[b], Tokens(b, 0, b == 0 ? n : 1), LogitsWanted::kLast};
      COLIBRI_RETURN_IF_ERROR(Step(1));
    }
    for (const SequenceId id : sequences_) COLIBRI_RETURN_IF_ERROR(engine_.TruncateSequence(id, 0));
    return {};
  }

  Status FillContext(const InterruptScope& interrupt) {
    return Feed(0, options_.n_context, interrupt);
  }
  Status Prefill(const InterruptScope& interrupt) {
    return Feed(options_.n_context, options_.n_context + options_.n_prompt, interrupt);
  }

  // All sequences together, a token each a step.
  Status Decode(const InterruptScope& interrupt) {
    for (int32_t i = 0; i < options_.n_generate; ++i) {
      if (interrupt.interrupted()) return Cancelled("interrupted");
      for (size_t b = 0; b < batch_; ++b) {
        items_[b] = {sequences_[b], Tokens(b, options_.n_context + options_.n_prompt + i, 1),
                     LogitsWanted::kLast};
      }
      COLIBRI_RETURN_IF_ERROR(Step(batch_));
    }
    return {};
  }

 private:
  // Tokens [first, end) of sequence after sequence, in steps as long as the engine takes them.
  Status Feed(int32_t first, int32_t end, const InterruptScope& interrupt) {
    for (size_t b = 0; b < batch_; ++b) {
      for (int32_t done = first; done < end;) {
        if (interrupt.interrupted()) return Cancelled("interrupted");
        const int32_t n = std::min(engine_.max_batch_tokens(), end - done);
        const bool last = done + n == end;
        items_[0] = {sequences_[b], Tokens(b, done, n),
                     last ? LogitsWanted::kLast : LogitsWanted::kNone};
        COLIBRI_RETURN_IF_ERROR(Step(1));
        done += n;
      }
    }
    return {};
  }
  std::span<const int32_t> Tokens(size_t b, int32_t first, int32_t n) const {
    return std::span(ids_[b]).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
  }
  Status Step(size_t n_items) {
    const std::span<StepResult> results = std::span(results_).first(n_items);
    const StepOutput output = {logits_, results, {}};
    COLIBRI_ASSIGN_OR_RETURN(const StepSummary summary,
                             engine_.Step(std::span(items_).first(n_items), output));
    static_cast<void>(summary);
    for (StepResult& result : results) COLIBRI_RETURN_IF_ERROR(std::move(result.status));
    return {};
  }

  const Options& options_;
  Engine& engine_;
  const size_t vocab_;
  const size_t batch_;
  std::vector<SequenceId> sequences_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<float> logits_;  // [batch, vocab]
  std::vector<StepResult> results_;
  std::vector<StepItem> items_;
};

// What the layers with experts did between two looks at an engine's counters.
struct MoeFigures {
  double jobs_a_layer = 0;
  double route_share = 0;
};
MoeFigures MoeSince(const ForwardStats& before, const ForwardStats& now) {
  const uint64_t layers = now.moe_layers - before.moe_layers;
  if (layers == 0) return {};
  return {static_cast<double>(now.moe_jobs - before.moe_jobs) / static_cast<double>(layers),
          (now.moe_route_s - before.moe_route_s) / (now.moe_s - before.moe_s)};
}

Result<RunFigures> MeasureOnce(const Options& options, Setup& setup, Console& console,
                               const InterruptScope& interrupt) {
  RunFigures figures;
  ResetPeakMemory();
  COLIBRI_ASSIGN_OR_RETURN(const ModelFiles files, OpenModelFiles(setup.model, Log()));
  COLIBRI_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(files, Log(), options.activations));
  EngineOptions engine_options;
  engine_options.n_threads = options.n_threads;
  engine_options.pin = options.pin;
  engine_options.activations = options.activations;
  engine_options.kv_type = options.kv_type;
  engine_options.max_context = options.n_context + options.n_prompt + options.n_generate;
  engine_options.max_sequences = options.batch;
  engine_options.max_batch_tokens = std::max(kMaxBatchTokens, options.batch);

  const Stopwatch load;
  COLIBRI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                           LoadEngine(setup.model, engine_options, console));
  figures.load_s = load.Seconds();
  setup.architecture = engine->config().architecture;
  setup.isa = engine->isa();
  setup.n_threads = engine->n_threads();
  setup.pinned = engine->threads_pinned();

  Workload workload(options, *engine);
  COLIBRI_RETURN_IF_ERROR(workload.Start());
  COLIBRI_RETURN_IF_ERROR(workload.WarmUp());
  const ForwardStats at_start = engine->stats();
  COLIBRI_RETURN_IF_ERROR(workload.FillContext(interrupt));
  const ForwardStats at_prefill = engine->stats();
  const Stopwatch prefill;
  COLIBRI_RETURN_IF_ERROR(workload.Prefill(interrupt));
  figures.prefill_s = prefill.Seconds();
  const ForwardStats at_decode = engine->stats();
  const Stopwatch decode;
  COLIBRI_RETURN_IF_ERROR(workload.Decode(interrupt));
  figures.decode_s = decode.Seconds();
  const MoeFigures prefill_moe = MoeSince(at_prefill, at_decode),
                   decode_moe = MoeSince(at_decode, engine->stats());
  figures.prefill_moe_jobs_a_layer = prefill_moe.jobs_a_layer;
  figures.prefill_route_share = prefill_moe.route_share;
  figures.decode_moe_jobs_a_layer = decode_moe.jobs_a_layer;
  figures.decode_route_share = decode_moe.route_share;

  const double batch = options.batch;
  if (options.n_prompt > 0) {
    figures.prefill_tokens_per_s = batch * options.n_prompt / figures.prefill_s;
  }
  if (options.n_generate > 0) {
    figures.decode_tokens_per_s = batch * options.n_generate / figures.decode_s;
  }
  figures.peak_rss_bytes = static_cast<double>(PeakResidentBytes());
  const PageUsage pages = engine->model().MeasureWeightPages();
  figures.weight_bytes = static_cast<double>(pages.bytes);
  figures.huge_page_bytes = static_cast<double>(pages.huge_bytes);
  figures.bytes_per_token = static_cast<double>(engine->model().bytes_per_token());
  figures.flops_per_token = static_cast<double>(plan.flops_per_token);
  figures.expert_calls = static_cast<double>(engine->stats().expert_calls - at_start.expert_calls);
  figures.expert_calls_per_token_dispatch =
      static_cast<double>(engine->stats().expert_calls_per_token - at_start.expert_calls_per_token);
  return figures;
}

Spread SpreadOfFigure(const std::vector<RunFigures>& runs, const Figure& figure) {
  std::vector<double> values;
  for (const RunFigures& run : runs) values.push_back(run.*figure.value);
  return SpreadOf(std::move(values));
}

std::string JsonReport(const Options& options, const Setup& setup,
                       const std::vector<RunFigures>& runs) {
  nlohmann::ordered_json report = {
      {"model", setup.model},
      {"architecture", setup.architecture},
      {"isa", setup.isa},
      {"threads", setup.n_threads},
      {"pinned", setup.pinned},
      {"context", options.n_context},
      {"kv_type", KvTypeName(options.kv_type)},
      {"activations", ActivationTypeName(options.activations)},
      {"prompt", options.n_prompt},
      {"generate", options.n_generate},
      {"batch", options.batch},
      {"repeat", options.repeat},
  };
  nlohmann::ordered_json spread;
  for (const Figure& figure : kFigures) {
    const Spread values = SpreadOfFigure(runs, figure);
    report[figure.key] = values.median;
    spread[figure.key] = {{"min", values.min}, {"max", values.max}};
  }
  report["spread"] = spread;
  report["runs"] = nlohmann::ordered_json::array();
  for (const RunFigures& run : runs) {
    nlohmann::ordered_json row;
    for (const Figure& figure : kFigures) row[figure.key] = run.*figure.value;
    row["prefill_s"] = run.prefill_s;
    row["decode_s"] = run.decode_s;
    report["runs"].push_back(row);
  }
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string TextReport(const Options& options, const Setup& setup,
                       const std::vector<RunFigures>& runs) {
  std::ostringstream out;
  out << setup.architecture << ", " << setup.isa << ", " << setup.n_threads
      << (setup.pinned ? " pinned threads, batch " : " threads, batch ") << options.batch
      << ", KV cache " << KvTypeName(options.kv_type) << ", activations "
      << ActivationTypeName(options.activations) << ", "
      << (options.n_context > 0 ? StrCat(options.n_context, " tokens before, ") : std::string())
      << options.n_prompt << " prompt tokens, " << options.n_generate << " generated, "
      << runs.size() << (runs.size() == 1 ? " run\n\n" : " runs\n\n") << std::left << std::setw(34)
      << "" << std::right << std::setw(16) << "median" << std::setw(16) << "min" << std::setw(16)
      << "max"
      << "\n";
  for (const Figure& figure : kFigures) {
    const Spread spread = SpreadOfFigure(runs, figure);
    const std::string unit = *figure.unit == '\0' ? "" : StrCat(", ", figure.unit);
    const bool whole = spread.median >= 1e4;
    out << std::left << std::setw(34) << StrCat(figure.label, unit) << std::right << std::fixed
        << std::setprecision(whole ? 0 : 3);
    for (const double value : {spread.median, spread.min, spread.max}) {
      out << std::setw(16) << value;
    }
    out << "\n";
  }
  return out.str();
}

ExitCode Run(const Options& options, Console& console) {
  Setup setup;
  Result<std::string> model = ModelOrDefault(options.model);
  if (!model.ok()) return console.Fail(model.status());
  setup.model = *std::move(model);
  if (static_cast<int64_t>(options.n_context) + options.n_prompt + options.n_generate > INT32_MAX) {
    return console.Fail(
        InvalidArgument("--context, --prompt and --generate together exceed 2^31 tokens"));
  }
  const InterruptScope interrupt;
  std::vector<RunFigures> runs;
  for (int32_t i = 0; i < options.repeat; ++i) {
    console.Progress(StrCat("run ", i + 1, " of ", options.repeat));
    Result<RunFigures> run = MeasureOnce(options, setup, console, interrupt);
    console.EndProgress();
    if (run.status().code() == StatusCode::kCancelled) return ExitCode::kInterrupted;
    if (!run.ok()) return console.Fail(run.status());
    runs.push_back(*run);
  }
  console.Write(options.json ? JsonReport(options, setup, runs) : TextReport(options, setup, runs));
  return console.Finish();
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("-m,--model", options->model, "The model; Colibri Nano when none is named")
      ->type_name("MODEL");
  const auto add_count = [&app](const char* name, int32_t& value, double low, const char* text) {
    app.add_option(name, value, text)->type_name("N")->check(AtLeast(low))->capture_default_str();
  };
  add_count("--context", options->n_context, 0,
            "Tokens of each sequence before its prompt; their time is not measured");
  add_count("--prompt", options->n_prompt, 1, "Prompt tokens of each sequence");
  add_count("--generate", options->n_generate, 0, "Tokens that each sequence generates");
  add_count("--batch", options->batch, 1, "Sequences that decode together");
  add_count("--repeat", options->repeat, 1, "Runs, each of which loads the model anew");
  AddThreadsFlag(app, options->n_threads);
  AddPinFlag(app, options->pin);
  AddActivationsFlag(app, options->activations);
  AddKvTypeFlag(app, options->kv_type);
  app.add_flag("--json", options->json, "Print JSON: the medians, their spread and every run");
  return [options](Console& console) { return Run(*options, console); };
}

}  // namespace

const Command kBenchCommand = {
    "bench",
    "Measure load time, prefill and decode speed, memory, and what a token costs",
    "[OPTIONS]",
    R"(The tokens are made up: the same work as text, with nothing to end it. Every figure is the median of
the runs, with the smallest and the largest; a step of up to 512 tokens comes first that is not measured. An
expert call is one matrix multiplication with one expert's weights; the figure beside it is what dispatch token by
token would have made of them. Waits a MoE layer are the times that all threads wait for each other in a layer with
experts; routing's share is the part of that layer's time from the mixer's answer to the groups of the experts:
residual, norm, routing and grouping.

Example:
  colibri bench --model model.gguf --prompt 512 --generate 64 --batch 4 --json)",
    Add,
};

}  // namespace colibri::cli
