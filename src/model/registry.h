// model/registry.h - all model families.
#pragma once

#include <string_view>
#include <vector>

#include "model/arch_spec.h"

namespace colibri {

// One function a family, in model/arch.
ArchSpec LlamaSpec();
ArchSpec Qwen2Spec();
ArchSpec Qwen3Spec();
ArchSpec MixtralSpec();
ArchSpec Qwen2MoeSpec();
ArchSpec Qwen3MoeSpec();
ArchSpec OlmoeSpec();
ArchSpec DeepseekV2Spec();
ArchSpec DeepseekV3Spec();
ArchSpec GptOssSpec();
ArchSpec Glm4MoeSpec();
ArchSpec GraniteMoeSpec();
ArchSpec PhimoeSpec();
ArchSpec Dots1Spec();
ArchSpec Ernie45MoeSpec();
ArchSpec HunyuanMoeSpec();
ArchSpec MinimaxM2Spec();

// In the order of the README's table.
const std::vector<ArchSpec>& AllArchSpecs();

}  // namespace colibri
