// model/tensor_names.h - which tensor of the files a weight came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colibri {

// Names by the address where a weight's data begins: the views of a model's weights carry none.
class TensorNames {
 public:
  // In ascending order of the addresses.
  void Add(const void* data, const std::string& name);
  // Empty when no tensor's data begins there.
  std::string_view Find(const void* data) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::pair<const uint8_t*, uint32_t>> by_address_;  // index into names_
};

}  // namespace colibri
