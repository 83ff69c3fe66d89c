// format/gguf_tokenizer.h - the vocabulary that GGUF metadata hold.
#pragma once

#include "base/status.h"
#include "format/metadata.h"
#include "text/gguf_vocab.h"

namespace colibri {

// Collects the tokenizer.* keys; what the file lacks stays empty. Fails with InvalidArgument when a
// key has another type than it should, naming file and key. Whether the vocabulary makes sense is
// for the tokenizer to check.
Result<GgufVocab> ReadGgufVocab(const Metadata& metadata);

}  // namespace colibri
