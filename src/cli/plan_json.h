// cli/plan_json.h - a model's resolved plan as JSON, from which `inspect` prints text too.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/engine.h"

namespace colibri::cli {

// What concerns the model as a whole.
nlohmann::ordered_json ConfigJson(const ModelConfig& config);

// One layer: {"attention": {...}, "ffn": {...}}. Only what is in force: no key for a clip that does
// not clip.
nlohmann::ordered_json LayerJson(const LayerPlan& layer);

// "key value, key value" of a flat object.
std::string OneLine(const nlohmann::ordered_json& object);

}  // namespace colibri::cli
