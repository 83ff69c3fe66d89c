// `colibri logits`: a model's numbers for given token ids, for comparisons.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/safetensors_file.h"
#include "cli/token_ids.h"
#include "engine/engine.h"
#include "engine/sampler.h"

namespace colibri::cli {
namespace {

// Large enough for the experts' batches, small enough that a chunk's logits stay below a few
// hundred MB with the largest vocabularies.
constexpr int32_t kDefaultChunk = 128;

struct Options {
  ActivationType activations = ActivationType::kFloat32;
  std::string model;
  std::string ids;
  std::string output;
  bool hidden = false;
  int32_t n_greedy = 0;
  bool greedy = false;
  int32_t n_threads = 0;
  std::optional<PinMode> pin = {};
  // Other programs' numbers are compared with these.
  KvType kv_type = KvType::kF32;
  int32_t chunk = kDefaultChunk;
};

// Where each tensor stands in the file.
struct Tensors {
  size_t logits = 0;
  size_t layer_hidden = 0;
  size_t greedy_ids = 0;
};

// One run: feeds the ids chunk by chunk, then the greedy tokens, and writes what comes.
class LogitsRun {
 public:
  LogitsRun(const Options& options, Engine& engine, std::vector<int32_t> ids)
      : options_(options),
        engine_(engine),
        ids_(std::move(ids)),
        n_(ids_.size()),
        vocab_(static_cast<size_t>(engine.vocab_size())),
        hidden_(static_cast<size_t>(engine.config().hidden)),
        n_rows_hidden_(static_cast<size_t>(engine.config().n_layers) + 1),
        chunk_(std::min(static_cast<size_t>(options.chunk), n_)) {}

  Status Run(Console& console, const InterruptScope& interrupt) {
    const auto total = static_cast<int32_t>(n_ + static_cast<size_t>(options_.n_greedy));
    COLIBRI_ASSIGN_OR_RETURN(sequence_, engine_.CreateSequence(total));
    COLIBRI_ASSIGN_OR_RETURN(SafetensorsFile file, CreateFile());
    logits_.resize(chunk_ * vocab_);
    if (options_.hidden) hidden_states_.resize(n_rows_hidden_ * chunk_ * hidden_);
    for (size_t done = 0; done < n_; done += chunk_) {
      if (interrupt.interrupted()) return Cancelled("interrupted");
      console.Progress(StrCat("computing: ", done, " of ", n_, " tokens"));
      COLIBRI_RETURN_IF_ERROR(WriteChunk(file, done, std::min(chunk_, n_ - done)));
    }
    if (options_.greedy) COLIBRI_RETURN_IF_ERROR(WriteGreedy(file, console, interrupt));
    return file.Close();
  }

 private:
  Result<SafetensorsFile> CreateFile() {
    std::vector<OutputTensor> tensors;
    tensors_.logits = tensors.size();
    tensors.push_back({"logits", "F32", {n_, vocab_}, sizeof(float)});
    if (options_.hidden) {
      tensors_.layer_hidden = tensors.size();
      tensors.push_back({"layer_hidden", "F32", {n_rows_hidden_, n_, hidden_}, sizeof(float)});
    }
    if (options_.greedy) {
      tensors_.greedy_ids = tensors.size();
      const uint64_t n_all = n_ + static_cast<uint64_t>(options_.n_greedy);
      tensors.push_back({"greedy_ids", "I64", {n_all}, sizeof(int64_t)});
    }
    return SafetensorsFile::Create(options_.output, std::move(tensors));
  }

  // Computes `tokens`; the logits of the wanted rows are in logits_ afterwards.
  Result<StepResult> Step(std::span<const int32_t> tokens, LogitsWanted want,
                          std::span<float> layer_hidden) {
    const StepItem item = {sequence_, tokens, want};
    StepResult result;
    const StepOutput output = {logits_, {&result, 1}, layer_hidden};
    COLIBRI_ASSIGN_OR_RETURN(const StepSummary summary, engine_.Step({&item, 1}, output));
    static_cast<void>(summary);
    COLIBRI_RETURN_IF_ERROR(result.status);
    return result;
  }

  Status WriteChunk(SafetensorsFile& file, size_t first, size_t n) {
    const std::span<const int32_t> tokens = std::span(ids_).subspan(first, n);
    COLIBRI_ASSIGN_OR_RETURN(const StepResult result,
                             Step(tokens, LogitsWanted::kAll, hidden_states_));
    const auto row = static_cast<size_t>(result.first_logits_row);
    const std::span<const float> rows = std::span(logits_).subspan(row * vocab_, n * vocab_);
    COLIBRI_RETURN_IF_ERROR(file.WriteValues(tensors_.logits, first * vocab_, rows));
    last_logits_ = (row + n - 1) * vocab_;
    if (!options_.hidden) return {};
    for (size_t layer = 0; layer < n_rows_hidden_; ++layer) {
      const std::span<const float> values =
          std::span(hidden_states_).subspan(layer * n * hidden_, n * hidden_);
      COLIBRI_RETURN_IF_ERROR(
          file.WriteValues(tensors_.layer_hidden, (layer * n_ + first) * hidden_, values));
    }
    return {};
  }

  Status WriteGreedy(SafetensorsFile& file, Console& console, const InterruptScope& interrupt) {
    Sampler sampler(engine_.vocab_size());
    const SamplingParams greedy;
    std::vector<int64_t> all(ids_.begin(), ids_.end());
    for (int32_t i = 0; i < options_.n_greedy; ++i) {
      if (interrupt.interrupted()) return Cancelled("interrupted");
      console.Progress(StrCat("generating: ", i, " of ", options_.n_greedy, " tokens"));
      const std::span<const float> logits = std::span(logits_).subspan(last_logits_, vocab_);
      COLIBRI_ASSIGN_OR_RETURN(const int32_t token,
                               sampler.Sample(greedy, logits, TokenHistory{ids_, n_}));
      ids_.push_back(token);
      all.push_back(token);
      if (i + 1 == options_.n_greedy) break;
      COLIBRI_ASSIGN_OR_RETURN(const StepResult result, Step({&token, 1}, LogitsWanted::kLast, {}));
      last_logits_ = static_cast<size_t>(result.first_logits_row) * vocab_;
    }
    return file.WriteValues(tensors_.greedy_ids, 0, std::span<const int64_t>(all));
  }

  const Options& options_;
  Engine& engine_;
  std::vector<int32_t> ids_;  // the given ones, then the greedy ones
  const size_t n_;            // given
  const size_t vocab_;
  const size_t hidden_;
  const size_t n_rows_hidden_;
  const size_t chunk_;
  SequenceId sequence_ = -1;
  Tensors tensors_;
  std::vector<float> logits_;         // [chunk, vocab]
  std::vector<float> hidden_states_;  // [layers + 1, chunk, hidden]
  size_t last_logits_ = 0;            // of the last token computed, within logits_
};

ExitCode Run(const Options& options, Console& console) {
  std::string text = options.ids;
  if (text == "-") {
    Result<std::string> input = ReadStandardInput();
    if (!input.ok()) return console.Fail(input.status());
    text = *std::move(input);
  }
  Result<std::vector<int32_t>> ids = ParseTokenIds(text);
  if (!ids.ok()) return console.Fail(std::move(ids).status().WithContext("--ids"));
  if (ids->empty()) return console.Fail(InvalidArgument("--ids: at least one token id is needed"));
  const uint64_t total = ids->size() + static_cast<uint64_t>(options.n_greedy);
  if (total > INT32_MAX) return console.Fail(InvalidArgument("--ids: too many tokens"));

  EngineOptions engine_options;
  engine_options.n_threads = options.n_threads;
  engine_options.pin = options.pin;
  engine_options.activations = options.activations;
  engine_options.kv_type = options.kv_type;
  engine_options.max_context = static_cast<int32_t>(total);
  // The reference computes the given ids first, then one greedy token after the other.
  engine_options.rope_context = static_cast<int32_t>(ids->size());
  engine_options.max_sequences = 1;
  engine_options.max_batch_tokens = std::min(options.chunk, static_cast<int32_t>(ids->size()));
  Result<std::unique_ptr<Engine>> engine = LoadEngine(options.model, engine_options, console);
  if (!engine.ok()) return console.Fail(engine.status());

  const InterruptScope interrupt;
  LogitsRun run(options, **engine, *std::move(ids));
  const Status status = run.Run(console, interrupt);
  console.EndProgress();
  if (status.code() == StatusCode::kCancelled) return ExitCode::kInterrupted;
  return status.ok() ? console.Finish() : console.Fail(status);
}

CommandBody Add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("-m,--model", options->model, "A .gguf file or a Hugging Face folder")
      ->type_name("MODEL")
      ->required();
  app.add_option("--ids", options->ids,
                 "Token ids, separated by spaces or commas; - reads them from standard input")
      ->type_name("IDS")
      ->required();
  app.add_option("-o,--output", options->output, "The safetensors file to write")
      ->type_name("FILE")
      ->required();
  app.add_flag("--hidden", options->hidden,
               "Write layer_hidden too: the embedding, the residual stream after each layer, the "
               "last one after the final norm");
  CLI::Option* greedy =
      app.add_option("--greedy", options->n_greedy,
                     "Write greedy_ids too: the ids and N greedy tokens after them, whatever ends "
                     "an answer")
          ->type_name("N")
          ->check(AtLeast(0));
  AddThreadsFlag(app, options->n_threads);
  AddPinFlag(app, options->pin);
  AddActivationsFlag(app, options->activations);
  AddKvTypeFlag(app, options->kv_type);
  app.add_option("--chunk", options->chunk,
                 "Tokens of one step; decides speed and memory, never the numbers")
      ->type_name("N")
      ->check(AtLeast(1))
      ->capture_default_str();
  return [options, greedy](Console& console) {
    options->greedy = greedy->count() > 0;
    return Run(*options, console);
  };
}

}  // namespace

const Command kLogitsCommand = {
    "logits",
    "Write a model's logits for given token ids to a safetensors file",
    "--model MODEL --ids IDS --output FILE [OPTIONS]",
    R"(The file holds float32 logits [n, vocab]; with --hidden float32 layer_hidden [layers + 1, n, hidden];
with --greedy int64 greedy_ids [n + N]. No tokenizer is needed.

Example:
  colibri logits --model model.gguf --ids "1 2 3" --output o.safetensors --hidden --greedy 16)",
    Add,
};

}  // namespace colibri::cli
