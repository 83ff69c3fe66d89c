// cli/engine_flags.h - loading a model, the same way in every command.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/console.h"
#include "engine/engine.h"

namespace colibri::cli {

// Thread counts that --threads takes.
inline constexpr int32_t kMaxThreads = 1024;

// --threads alone.
void AddThreadsFlag(CLI::App& app, int32_t& n_threads);
// --pin alone.
void AddPinFlag(CLI::App& app, std::optional<PinMode>& pin);
// --activations alone; what `activations` holds is the default.
void AddActivationsFlag(CLI::App& app, ActivationType& activations);
// "int8" or "f32".
const char* ActivationTypeName(ActivationType activations);
// --ctx alone.
void AddContextFlag(CLI::App& app, int32_t& max_context);
// --kv-type alone.
void AddKvTypeFlag(CLI::App& app, KvType& kv_type);

// Opens and loads a model. Shows progress on a terminal, and warnings of the library.
Result<std::unique_ptr<Engine>> LoadEngine(const std::string& model, EngineOptions options,
                                           Console& console);

}  // namespace colibri::cli
