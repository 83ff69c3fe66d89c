#include "engine/load_tokenizer.h"

#include "base/strings.h"
#include "format/gguf_tokenizer.h"

namespace colibri {

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const ModelFiles& files) {
  if (files.format == ModelFormat::kGguf) {
    if (!files.config.HasPrefix("tokenizer.ggml.")) {
      return NotFound(
          StrCat(files.config.origin(), " holds no tokenizer (no tokenizer.ggml. keys)"));
    }
    COLIBRI_ASSIGN_OR_RETURN(const GgufVocab vocab, ReadGgufVocab(files.config));
    return MakeTokenizerFromGguf(vocab);
  }
  if (files.tokenizer_json.empty()) {
    return NotFound(StrCat("there is no tokenizer.json in ", files.path));
  }
  return LoadTokenizerJson(files.tokenizer_json, files.tokenizer_config_json,
                           StrCat(files.path, "/tokenizer.json"));
}

}  // namespace colibri
