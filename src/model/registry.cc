#include "model/registry.h"

namespace colibri {

const std::vector<ArchSpec>& AllArchSpecs() {
  static const std::vector<ArchSpec> specs = {
      MixtralSpec(),    Qwen2MoeSpec(),   Qwen3MoeSpec(),   OlmoeSpec(),      DeepseekV2Spec(),
      DeepseekV3Spec(), GptOssSpec(),     Glm4MoeSpec(),    GraniteMoeSpec(), PhimoeSpec(),
      Dots1Spec(),      Ernie45MoeSpec(), HunyuanMoeSpec(), MinimaxM2Spec(),  LlamaSpec(),
      Qwen2Spec(),      Qwen3Spec(),
  };
  return specs;
}

}  // namespace colibri
