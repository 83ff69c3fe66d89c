// engine/load_tokenizer.h - the tokenizer that lies in or beside a model's files.
#pragma once

#include <memory>

#include "base/status.h"
#include "format/model_files.h"
#include "text/tokenizer.h"

namespace colibri {

// NotFound when the files hold none; what they hold and this library can't read is the tokenizer's
// own error.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const ModelFiles& files);

}  // namespace colibri
