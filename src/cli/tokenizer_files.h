// cli/tokenizer_files.h - a tokenizer without the model around it.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace colibri::cli {

// The tokenizer of a tokenizer.json, of a folder that holds one, or of a model. No weight is read.
// tokenizer_config.json beside a tokenizer.json is read too.
Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path, const Log& log);

// The whole of a file. NotFound or IoError names it.
Result<std::string> ReadTextFile(const std::string& path);

}  // namespace colibri::cli
