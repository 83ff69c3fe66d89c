// One piece of input: a safetensors file. Several: an index and its shards.
#include "base/strings.h"
#include "format/safetensors.h"
#include "fuzz_input.h"
#include "platform/file_double.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace colibri;
  const auto pieces = fuzz::SplitFiles(data, size, 5);
  MemoryFileSystem disk;
  if (pieces.size() == 1) {
    disk.Add("m/model.safetensors", std::string(pieces[0]));
  } else {
    if (!pieces[0].empty()) disk.Add("m/model.safetensors.index.json", std::string(pieces[0]));
    for (size_t i = 1; i < pieces.size(); ++i) {
      disk.Add(StrCat("m/model-", i, ".safetensors"), std::string(pieces[i]));
    }
  }
  const auto source = OpenSafetensorsFolder(disk, "m", Log());
  if (source.ok()) {
    fuzz::WalkTensors(**source);
  } else {
    fuzz::CheckMessage(source.status());
  }
  return 0;
}
