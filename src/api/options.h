// api/options.h - structures of callers that were built with another version of the header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"

namespace colibri {

// Copies what the caller's structure has over `out`, which holds defaults. What a newer caller has
// beyond it must be zero: the library would ignore it.
template <typename T>
Status ReadOptions(const T* in, std::string_view name, T& out) {
  if (in == nullptr) return Status();
  const size_t size = in->struct_size;
  if (size < sizeof(size_t) || size > 64 * sizeof(T)) {
    return InvalidArgument(
        StrCat(name, ".struct_size is ", size, ": call ", name, "_init before setting fields"));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char b) { return b != 0; })) {
    return Unsupported(StrCat(name, " asks for something that is newer than this library"));
  }
  std::memcpy(static_cast<void*>(&out), in, std::min(size, sizeof(T)));
  out.struct_size = sizeof(T);
  return Status();
}

// Gives the caller as much of `in` as its structure has room for.
template <typename T>
void WriteStruct(const T& in, T* out) {
  const size_t size = std::min(out->struct_size, sizeof(T));
  if (size <= sizeof(size_t)) return;
  std::memcpy(reinterpret_cast<unsigned char*>(out) + sizeof(size_t),
              reinterpret_cast<const unsigned char*>(&in) + sizeof(size_t), size - sizeof(size_t));
}

}  // namespace colibri
