// text/regex_syntax.h - a pattern's syntax tree, as the compiler of regex.h takes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/unicode.h"

namespace colibri {

struct RegexNode {
  enum class Kind {
    kSet,     // one character of `set`
    kConcat,  // children in order
    kChoice,  // children in order of preference
    kRepeat,  // the child, min to max times
    kLook,    // lookahead for one character of `set`
    kAssert,  // see `assertion`
  };
  enum class Greed { kGreedy, kLazy, kPossessive };
  enum class Assertion { kLineBegin, kLineEnd, kTextBegin, kTextEnd, kWordBoundary };
  static constexpr uint32_t kUnbounded = UINT32_MAX;

  Kind kind = Kind::kConcat;
  std::vector<std::unique_ptr<RegexNode>> children;
  std::unique_ptr<CodePointSet> set;
  uint32_t min = 0;
  uint32_t max = 0;
  Greed greed = Greed::kGreedy;
  Assertion assertion = Assertion::kLineBegin;
  bool negated = false;
};

// Far above the patterns of real tokenizers: a node's set takes 136 KiB while a pattern is
// compiled.
inline constexpr size_t kMaxRegexBytes = 8192;
inline constexpr int kMaxRegexSets = 1024;
inline constexpr int kMaxRegexDepth = 32;

// Parses a pattern of valid UTF-8. Groups and classes nest at most kMaxRegexDepth deep.
Result<std::unique_ptr<RegexNode>> ParseRegex(std::string_view pattern,
                                              const UnicodeProperties& properties);

}  // namespace colibri
