// A Hugging Face folder: config.json, then generation_config.json, tokenizer_config.json and
// chat_template.json where the input has more pieces.
#include "base/strings.h"
#include "format/model_files.h"
#include "fuzz_input.h"
#include "platform/file_double.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace colibri;
  constexpr const char* kNames[] = {"m/config.json", "m/generation_config.json",
                                    "m/tokenizer_config.json", "m/chat_template.json"};
  MemoryFileSystem disk;
  disk.Add("m/model.safetensors", StrCat("\2", std::string(7, '\0'), "{}"));
  const auto pieces = fuzz::SplitFiles(data, size, 4);
  for (size_t i = 0; i < pieces.size(); ++i) disk.Add(kNames[i], std::string(pieces[i]));
  const auto model = OpenModelFiles(disk, "m", Log());
  if (!model.ok()) {
    fuzz::CheckMessage(model.status());
    return 0;
  }
  fuzz::WalkMetadata(model->config);
  fuzz::WalkMetadata(model->generation_config);
  return 0;
}
