// format/gguf_value.h - the values of GGUF metadata. Internal to format/.
#pragma once

#include <string_view>

#include "base/status.h"
#include "format/gguf_cursor.h"
#include "format/metadata.h"

namespace colibri {

// Reads one file's values; all of its lists together share one cap.
class GgufValueReader {
 public:
  explicit GgufValueReader(GgufCursor& cursor) : cursor_(cursor) {}

  // A type and the value that follows. `key` stands in errors.
  Status Read(std::string_view key, MetaValue& out);

 private:
  Status ReadList(std::string_view key, MetaValue& out);
  // The type and length of a list, checked against the caps and the rest of the file.
  Status ReadListHead(std::string_view key, uint32_t& type, uint64_t& n);
  // Appends a list as JSON; `depth` counts the lists around it.
  Status ReadListAsJson(std::string_view key, uint32_t depth, std::string& json);

  GgufCursor& cursor_;
  uint64_t n_elements_ = 0;
};

}  // namespace colibri
