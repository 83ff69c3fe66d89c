#include "model/tensor_names.h"

#include <algorithm>

#include "base/check.h"

namespace colibri {

void TensorNames::Add(const void* data, const std::string& name) {
  const auto* const address = static_cast<const uint8_t*>(data);
  COLIBRI_CHECK(by_address_.empty() || by_address_.back().first <= address);
  // The experts of one tensor follow each other.
  if (names_.empty() || names_.back() != name) names_.push_back(name);
  by_address_.emplace_back(address, static_cast<uint32_t>(names_.size() - 1));
}

std::string_view TensorNames::Find(const void* data) const {
  const auto* const address = static_cast<const uint8_t*>(data);
  const auto found =
      std::lower_bound(by_address_.begin(), by_address_.end(), address,
                       [](const auto& entry, const uint8_t* a) { return entry.first < a; });
  if (data == nullptr || found == by_address_.end() || found->first != address) return {};
  return names_[found->second];
}

}  // namespace colibri
