#include "cli/generation_flags.h"

#include <random>

#include "base/strings.h"
#include "cli/help.h"

namespace colibri::cli {
namespace {

// "41.2", or "-" when no time passed.
std::string Rate(int64_t n, double seconds) {
  if (seconds <= 0 || n <= 0) return "-";
  const auto tenths = static_cast<int64_t>(static_cast<double>(n) / seconds * 10 + 0.5);
  return StrCat(tenths / 10, ".", tenths % 10);
}

}  // namespace

void AddGenerationFlags(CLI::App& app, GenerationFlags& flags) {
  GenerateRequest& request = flags.request;
  SamplingParams& sampling = request.sampling;
  const auto add_float = [&app](const char* names, float& value, double low, double high,
                                const char* text) {
    app.add_option(names, value, text)
        ->type_name("X")
        ->check(Between(low, high))
        ->capture_default_str();
  };
  app.add_option("-n,--max-tokens", request.max_new_tokens,
                 "Tokens of the answer at most; by default as many as the context holds")
      ->type_name("N")
      ->check(AtLeast(1));
  add_float("--temp,--temperature", sampling.temperature, 0, 100,
            "Temperature; 0 takes the likeliest token each time");
  app.add_option("--top-k", sampling.top_k, "Choose among the K likeliest tokens; 0 is all")
      ->type_name("K")
      ->check(AtLeast(0))
      ->capture_default_str();
  add_float("--top-p", sampling.top_p, 1e-6, 1,
            "Choose among the likeliest tokens that together reach this probability");
  add_float("--min-p", sampling.min_p, 0, 1,
            "Choose among tokens at least this many times as likely as the likeliest");
  add_float("--repeat-penalty", sampling.repetition_penalty, 1e-3, 100,
            "Weakens tokens of prompt and answer; 1 is none");
  add_float("--presence-penalty", sampling.presence_penalty, -100, 100,
            "Taken from the logit of every token that the answer has");
  add_float("--frequency-penalty", sampling.frequency_penalty, -100, 100,
            "The same, times how often the answer has it");
  flags.seed = app.add_option("--seed", sampling.seed,
                              "Makes random choices repeatable; by default another one each time")
                   ->type_name("N")
                   ->check(Unsigned64());
  app.add_option("--stop", request.stop_strings,
                 "Text that ends the answer and is not part of it; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", request.ignore_eos,
               "Go on after the tokens that end an answer, up to --max-tokens");
}

GenerateRequest MakeRequest(const GenerationFlags& flags) {
  GenerateRequest request = flags.request;
  if (flags.seed->count() == 0 && request.sampling.temperature > 0) {
    std::random_device device;
    request.sampling.seed = (static_cast<uint64_t>(device()) << 32) | device();
  }
  return request;
}

std::string StatsLine(const GenerateRequest& request, const GenerateResult& result) {
  const auto n_tokens = static_cast<int64_t>(result.tokens.size());
  const int64_t n_prefill = result.n_prompt - result.n_cached;
  std::string line = StrCat(n_tokens, " tokens, ", Rate(n_tokens - 1, result.decode_s),
                            " tokens/s; prompt ", result.n_prompt, " tokens (", result.n_cached,
                            " cached), ", Rate(n_prefill, result.prefill_s), " tokens/s; ended by ",
                            FinishReasonName(result.finish));
  if (request.sampling.temperature > 0) line += StrCat("; seed ", request.sampling.seed);
  return line;
}

}  // namespace colibri::cli
