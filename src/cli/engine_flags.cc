#include "cli/engine_flags.h"

#include <string>
#include <vector>

#include "base/strings.h"
#include "cli/help.h"

namespace colibri::cli {
namespace {

struct ActivationName {
  const char* name;
  ActivationType type;
};
constexpr ActivationName kActivationNames[] = {{"int8", ActivationType::kInt8},
                                               {"bf16", ActivationType::kBFloat16},
                                               {"f32", ActivationType::kFloat32}};

}  // namespace

void AddThreadsFlag(CLI::App& app, int32_t& n_threads) {
  app.add_option("-t,--threads", n_threads,
                 "Threads to compute with; by default one for each CPU that this process may use "
                 "within its quota")
      ->type_name("N")
      ->check(Between(1, kMaxThreads));
}

void AddPinFlag(CLI::App& app, std::optional<PinMode>& pin) {
  app.add_option_function<std::string>(
         "--pin",
         [&pin](const std::string& mode) { pin = mode == "on" ? PinMode::kOn : PinMode::kOff; },
         "Whether each thread keeps to one CPU; by default COLIBRI_PIN, else only where the "
         "threads "
         "take all CPUs that this process may use")
      ->type_name("MODE")
      ->check(CLI::IsMember({"on", "off"}));
}

const char* ActivationTypeName(ActivationType activations) {
  for (const ActivationName& row : kActivationNames) {
    if (row.type == activations) return row.name;
  }
  return "";
}

void AddActivationsFlag(CLI::App& app, ActivationType& activations) {
  const std::string fallback = ActivationTypeName(activations);
  std::vector<std::string> names;
  for (const ActivationName& row : kActivationNames) names.emplace_back(row.name);
  app.add_option_function<std::string>(
         "--activations",
         [&activations](const std::string& name) {
           for (const ActivationName& row : kActivationNames) {
             if (name == row.name) activations = row.type;
           }
         },
         StrCat("What weights are multiplied by: int8, the fast way, rounds activations to 8 bits "
                "with a scale for each 32 where weights are quantised, and to bfloat16 where they "
                "are bfloat16; bf16 rounds to bfloat16 for both, which is more exact and slower; "
                "f32 leaves them as they are, as they always are for types without such kernels "
                "(f32, f16, iq1, iq2, iq3, tq). Default: ",
                fallback))
      ->type_name("TYPE")
      ->check(CLI::IsMember(names));
}

void AddContextFlag(CLI::App& app, int32_t& max_context) {
  app.add_option("--ctx", max_context,
                 StrCat("Tokens that prompt and answer may have together; by default what the "
                        "model was made for, up to ",
                        kDefaultContext, ", or less where memory is short"))
      ->type_name("N")
      ->check(AtLeast(1));
}

void AddKvTypeFlag(CLI::App& app, KvType& kv_type) {
  app.add_option_function<std::string>(
         "--kv-type", [&kv_type](const std::string& name) { kv_type = *ParseKvType(name); },
         "What keys and values are stored as: smaller types hold longer contexts and are read "
         "faster, larger ones are more exact")
      ->type_name("TYPE")
      ->check(CLI::IsMember(std::vector<std::string>(kKvTypeNames, kKvTypeNames + kNumKvTypes)))
      ->default_str(std::string(KvTypeName(kv_type)));
}

Result<std::unique_ptr<Engine>> LoadEngine(const std::string& model, EngineOptions options,
                                           Console& console) {
  options.load_progress = [&console](uint64_t done, uint64_t all) {
    console.Progress(StrCat("loading: ", FormatBytes(done), " of ", FormatBytes(all)));
  };
  Result<std::unique_ptr<Engine>> engine = Engine::Create(model, options, console.MakeLog());
  console.EndProgress();
  return engine;
}

}  // namespace colibri::cli
