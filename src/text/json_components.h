// text/json_components.h - the parts of tokenizer.json other than the model and the tokens.
#pragma once

#include "base/status.h"
#include "text/json_reader.h"
#include "text/tokenizer_parts.h"

namespace colibri {

// Each reads one component of the root object into `parts`; an absent or null one adds nothing.
// Unknown types are Unsupported, by name and path.
Status ReadNormalizer(const JsonObject& root, const UnicodeProperties& properties,
                      TokenizerParts& parts);
// Sets `byte_level` when the pieces are to be read as bytes.
Status ReadPreTokenizer(const JsonObject& root, const UnicodeProperties& properties,
                        TokenizerParts& parts, bool& byte_level);
// Needs the vocabulary complete.
Status ReadPostProcessor(const JsonObject& root, TokenizerParts& parts);
Status ReadDecoder(const JsonObject& root, TokenizerParts& parts);

}  // namespace colibri
