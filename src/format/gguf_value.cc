#include "format/gguf_value.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "format/gguf.h"
#include "format/json.h"

namespace colibri {
namespace {

// Type ids of the format.
enum ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBoolean = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// The least that an element takes in the file; 0 for an unknown type.
uint64_t MinElementBytes(uint32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBoolean:
      return 1;
    case kUint16:
    case kInt16:
      return 2;
    case kUint32:
    case kInt32:
    case kFloat32:
      return 4;
    case kUint64:
    case kInt64:
    case kFloat64:
    case kString:
      return 8;
    case kArray:
      return 12;
    default:
      return 0;
  }
}

template <typename T>
Status ReadAs(GgufCursor& cursor, std::string_view, int64_t& out) {
  T value = 0;
  COLIBRI_RETURN_IF_ERROR(cursor.ReadNumber(value));
  out = static_cast<int64_t>(value);
  return {};
}

Status ReadUint64(GgufCursor& cursor, std::string_view key, int64_t& out) {
  uint64_t value = 0;
  COLIBRI_RETURN_IF_ERROR(cursor.ReadNumber(value));
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return cursor.Corrupt(
        StrCat("key ", Printable(key), ": ", value, " is above 2^63-1, the largest integer read"));
  }
  out = static_cast<int64_t>(value);
  return {};
}

using IntReader = Status (*)(GgufCursor&, std::string_view, int64_t&);

// Null for types that are no integers.
IntReader FindIntReader(uint32_t type) {
  switch (type) {
    case kUint8:
      return ReadAs<uint8_t>;
    case kInt8:
      return ReadAs<int8_t>;
    case kUint16:
      return ReadAs<uint16_t>;
    case kInt16:
      return ReadAs<int16_t>;
    case kUint32:
      return ReadAs<uint32_t>;
    case kInt32:
      return ReadAs<int32_t>;
    case kInt64:
      return ReadAs<int64_t>;
    case kUint64:
      return ReadUint64;
    default:
      return nullptr;
  }
}

Status ReadFloat(GgufCursor& cursor, uint32_t type, double& out) {
  if (type == kFloat64) return cursor.ReadNumber(out);
  float narrow = 0;
  COLIBRI_RETURN_IF_ERROR(cursor.ReadNumber(narrow));
  out = narrow;
  return {};
}

Status ReadBool(GgufCursor& cursor, std::string_view key, bool& out) {
  uint8_t byte = 0;
  COLIBRI_RETURN_IF_ERROR(cursor.ReadNumber(byte));
  if (byte > 1) {
    return cursor.Corrupt(
        StrCat("key ", Printable(key), ": a boolean is ", static_cast<int>(byte), ", not 0 or 1"));
  }
  out = byte == 1;
  return {};
}

Status ReadText(GgufCursor& cursor, std::string_view key, std::string& out) {
  // The label is built for errors only: lists hold hundreds of thousands of strings.
  Status status = cursor.ReadString(out, kMaxGgufStringBytes, "a string");
  if (status.ok()) return status;
  return std::move(status).WithContext(StrCat("key ", Printable(key)));
}

Status UnknownType(const GgufCursor& cursor, std::string_view key, uint32_t type) {
  return cursor.Corrupt(
      StrCat("key ", Printable(key), ": unknown value type ", type, "; known are 0 to 12"));
}

// Lists grow as their elements are read: a length alone costs no memory.
constexpr uint64_t kMaxReserve = 1 << 20;
template <typename T>
void ReserveSome(std::vector<T>& list, uint64_t n) {
  list.reserve(static_cast<size_t>(std::min(n, kMaxReserve)));
}

void AppendJsonNumber(std::string& json, double value) {
  if (std::isnan(value)) {
    json += "NaN";
  } else if (std::isinf(value)) {
    json += value > 0 ? "Infinity" : "-Infinity";
  } else {
    char buffer[32];
    json.append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
  }
}

}  // namespace

Status GgufValueReader::Read(std::string_view key, MetaValue& out) {
  uint32_t type = 0;
  COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(type));
  if (const IntReader read = FindIntReader(type)) {
    return read(cursor_, key, out.emplace<int64_t>());
  }
  switch (type) {
    case kFloat32:
    case kFloat64:
      return ReadFloat(cursor_, type, out.emplace<double>());
    case kBoolean:
      return ReadBool(cursor_, key, out.emplace<bool>());
    case kString:
      return ReadText(cursor_, key, out.emplace<std::string>());
    case kArray:
      return ReadList(key, out);
    default:
      return UnknownType(cursor_, key, type);
  }
}

Status GgufValueReader::ReadListHead(std::string_view key, uint32_t& type, uint64_t& n) {
  COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(type));
  const uint64_t min_bytes = MinElementBytes(type);
  if (min_bytes == 0) return UnknownType(cursor_, key, type);
  COLIBRI_RETURN_IF_ERROR(cursor_.ReadNumber(n));
  if (n > cursor_.remaining() / min_bytes) {
    return cursor_.Corrupt(StrCat("key ", Printable(key), ": a list of ", n,
                                  " elements reaches beyond the end of the file (",
                                  cursor_.remaining(), " bytes are left)"));
  }
  n_elements_ += n;  // both are below 2^60
  if (n_elements_ > kMaxGgufArrayElements) {
    return cursor_.TooMuch(StrCat("key ", Printable(key), ": with its ", n,
                                  " elements the file's lists hold ", n_elements_, "; at most ",
                                  kMaxGgufArrayElements, " are allowed"));
  }
  return {};
}

Status GgufValueReader::ReadList(std::string_view key, MetaValue& out) {
  uint32_t type = 0;
  uint64_t n = 0;
  COLIBRI_RETURN_IF_ERROR(ReadListHead(key, type, n));
  if (const IntReader read = FindIntReader(type)) {
    auto& list = out.emplace<std::vector<int64_t>>();
    ReserveSome(list, n);
    for (uint64_t i = 0; i < n; ++i) {
      COLIBRI_RETURN_IF_ERROR(read(cursor_, key, list.emplace_back()));
    }
    return {};
  }
  switch (type) {
    case kFloat32:
    case kFloat64: {
      auto& list = out.emplace<std::vector<double>>();
      ReserveSome(list, n);
      for (uint64_t i = 0; i < n; ++i) {
        COLIBRI_RETURN_IF_ERROR(ReadFloat(cursor_, type, list.emplace_back()));
      }
      return {};
    }
    case kBoolean: {
      auto& list = out.emplace<std::vector<bool>>();
      for (uint64_t i = 0; i < n; ++i) {
        bool value = false;
        COLIBRI_RETURN_IF_ERROR(ReadBool(cursor_, key, value));
        list.push_back(value);
      }
      return {};
    }
    case kString: {
      auto& list = out.emplace<std::vector<std::string>>();
      ReserveSome(list, n);
      for (uint64_t i = 0; i < n; ++i) {
        COLIBRI_RETURN_IF_ERROR(ReadText(cursor_, key, list.emplace_back()));
      }
      return {};
    }
    default: {
      std::string& json = out.emplace<RawJson>().text;
      json += '[';
      for (uint64_t i = 0; i < n; ++i) {
        if (i != 0) json += ',';
        COLIBRI_RETURN_IF_ERROR(ReadListAsJson(key, 1, json));
      }
      json += ']';
      return {};
    }
  }
}

// Calls itself at most kMaxGgufArrayDepth times within each other.
Status GgufValueReader::ReadListAsJson(std::string_view key, uint32_t depth, std::string& json) {
  if (depth >= kMaxGgufArrayDepth) {
    return cursor_.TooMuch(StrCat("key ", Printable(key), ": lists within lists deeper than ",
                                  kMaxGgufArrayDepth, " levels"));
  }
  uint32_t type = 0;
  uint64_t n = 0;
  COLIBRI_RETURN_IF_ERROR(ReadListHead(key, type, n));
  const IntReader read_int = FindIntReader(type);
  json += '[';
  std::string text;
  for (uint64_t i = 0; i < n; ++i) {
    if (i != 0) json += ',';
    if (read_int != nullptr) {
      int64_t value = 0;
      COLIBRI_RETURN_IF_ERROR(read_int(cursor_, key, value));
      json += StrCat(value);
    } else if (type == kFloat32 || type == kFloat64) {
      double value = 0;
      COLIBRI_RETURN_IF_ERROR(ReadFloat(cursor_, type, value));
      AppendJsonNumber(json, value);
    } else if (type == kBoolean) {
      bool value = false;
      COLIBRI_RETURN_IF_ERROR(ReadBool(cursor_, key, value));
      json += value ? "true" : "false";
    } else if (type == kString) {
      COLIBRI_RETURN_IF_ERROR(ReadText(cursor_, key, text));
      AppendJsonString(json, text);
    } else {
      COLIBRI_RETURN_IF_ERROR(ReadListAsJson(key, depth + 1, json));
    }
  }
  json += ']';
  return {};
}

}  // namespace colibri
