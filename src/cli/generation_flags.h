// cli/generation_flags.h - the options of `run` and `chat` that say how an answer is made.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/generate.h"

namespace colibri::cli {

struct GenerationFlags {
  GenerateRequest request;      // all but prompt and callbacks
  CLI::Option* seed = nullptr;  // whether a seed was given
};

// Declares the options; `flags` must outlive the parse.
void AddGenerationFlags(CLI::App& app, GenerationFlags& flags);

// The request to start from; a seed is drawn where none was given and one is needed.
GenerateRequest MakeRequest(const GenerationFlags& flags);

// "84 tokens, 41.2 tokens/s; prompt 23 tokens (0 cached), 310 tokens/s; seed 7".
std::string StatsLine(const GenerateRequest& request, const GenerateResult& result);

}  // namespace colibri::cli
