// cli/default_model.h - where the model lies that is used when none is named.
#pragma once

#include <string>

#include "base/status.h"

namespace colibri::cli {

// Below a folder of models.
inline constexpr const char* kDefaultModel = "nano/nano-q8_0.gguf";

// The path of the default model, in the folder that the environment's COLIBRI_MODELS names, else in
// share/colibri/models beside the folder of the running program: an installation has it there, and
// the build makes a link there to the source tree's. NotFound says where it was looked for.
Result<std::string> FindDefaultModel();

// What the user named, or the default model where that is empty.
Result<std::string> ModelOrDefault(const std::string& named);

}  // namespace colibri::cli
