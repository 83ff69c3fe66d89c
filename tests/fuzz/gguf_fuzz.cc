// One piece of input: a GGUF file. Several: the parts of a split set.
#include "base/strings.h"
#include "format/gguf.h"
#include "format/gguf_tokenizer.h"
#include "fuzz_input.h"
#include "platform/file_double.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace colibri;
  const auto pieces = fuzz::SplitFiles(data, size, 4);
  MemoryFileSystem disk;
  std::string path = "m/model.gguf";
  if (pieces.size() == 1) {
    disk.Add(path, std::string(pieces[0]));
  } else {
    for (size_t i = 0; i < pieces.size(); ++i) {
      path = StrCat("m/model-0000", i + 1, "-of-0000", pieces.size(), ".gguf");
      disk.Add(path, std::string(pieces[i]));
    }
  }
  const auto model = OpenGguf(disk, path);
  if (!model.ok()) {
    fuzz::CheckMessage(model.status());
    return 0;
  }
  fuzz::WalkTensors(*model->tensors);
  fuzz::WalkMetadata(model->metadata);
  const auto vocab = ReadGgufVocab(model->metadata);
  if (!vocab.ok()) fuzz::CheckMessage(vocab.status());
  return 0;
}
