// A config.json up to the plan of every layer, with a file that holds no tensor: whatever it says
// gives a plan or a message, within the memory of its caps.
#include <cmath>

#include "fuzz_input.h"
#include "model/kv_layout.h"
#include "model/model.h"
#include "model/resolve.h"
#include "support/fake_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace colibri;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto files = testing::FakeFolder(json);
  if (!files.ok()) return 0;
  const auto spec = FindArchSpec(*files);
  if (!spec.ok()) {
    fuzz::CheckMessage(spec.status());
    return 0;
  }
  const auto config = ResolveConfig(ConfigReader(**spec, *files), *files, Log());
  if (!config.ok()) {
    fuzz::CheckMessage(config.status());
    return 0;
  }
  fuzz::Require(config->layers.size() == static_cast<size_t>(config->n_layers));
  for (const RopeSpec& rope : config->ropes) {
    for (const float frequency : RopeInverseFrequencies(rope, config->max_positions))
      fuzz::Require(std::isfinite(frequency));
  }
  for (const LayerPlan& layer : config->layers) {
    const RouterSpec& router = layer.ffn.router;
    fuzz::Require(layer.attention.head_dim > 0 && layer.attention.n_kv_heads > 0);
    fuzz::Require(!layer.ffn.is_moe() ||
                  (router.n_selected > 0 && router.n_selected <= router.n_experts));
  }
  const KvLayout layout = MakeKvLayout(*config, KvType::kQ8_0);
  fuzz::Require(layout.layers.size() == config->layers.size());
  fuzz::CheckMessage(
      PlanModel(*files, Log(), ActivationType::kInt8).status());  // there is no tensor
  return 0;
}
