// text/regex.h - the regular expressions of pre-tokenizers, matched in linear time.
//
// The syntax is the part of Oniguruma's (Ruby) that tokenizers use: literals, escapes, classes with
// \p{...}, ranges, nesting and &&, alternation, groups, (?i:...), greedy and lazy repetition,
// possessive repetition of a single class, ^ $ \A \z \b \B, and lookahead for one character class.
// Anything else is an error when the pattern is compiled. A match is the leftmost one, and among
// those that start there the first that a backtracking matcher finds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/unicode.h"

namespace colibri {

// Memory that a caller keeps between calls, one for each thread. `steps` counts what the matcher
// did since the caller last set it to zero, so that tests can bound the work.
struct RegexScratch {
  struct Choice {
    uint32_t instruction;
    size_t pos;
  };
  std::vector<Choice> choices;
  std::vector<uint64_t> visited;  // one bit for each (loop, position) that was tried, once needed
  uint64_t steps = 0;
};

// A compiled pattern. Immutable; safe to use from many threads with a scratch for each.
class Regex {
 public:
  // Fails with Unsupported for syntax outside the subset and with InvalidArgument for a malformed
  // pattern, naming the offset.
  static Result<Regex> Compile(std::string_view pattern, const UnicodeProperties& properties);

  // Calls visit(begin, end) for every match in `text`, which is valid UTF-8, from left to right. A
  // match that is empty is not reported. The time is linear in the text: when backtracking gets
  // expensive, (loop, position) pairs that failed are remembered.
  template <typename Visit>
  void ForEachMatch(std::string_view text, RegexScratch& scratch, Visit&& visit) const {
    Search search{text, scratch};
    size_t pos = 0;
    size_t begin = 0;
    while (FindFrom(search, pos, begin)) {
      visit(begin, pos);
    }
  }

  enum class Op : uint8_t {
    kMatch,
    kClass,       // one character of the class
    kOption,      // one character of the class where there is one; never gives it back
    kFork,        // next first, then other
    kLoop,        // a fork that a loop comes back to: where the work is counted and remembered
    kPossessive,  // while the next character is in the class stay, then go on; never gives back
    kLookahead,   // the next character is in the class; or, negated, is not or does not exist
    kLineBegin,
    kLineEnd,
    kTextBegin,
    kTextEnd,
    kWordBoundary,  // negated: no boundary
  };
  struct Instruction {
    Op op = Op::kMatch;
    bool negated = false;
    uint32_t next = 0;
    uint32_t other = 0;  // the second choice of a fork
    uint32_t set = 0;    // index into sets_
    uint32_t loop = 0;   // number among the loops
  };

 private:
  friend class RegexCompiler;
  struct Search {
    std::string_view text;
    RegexScratch& scratch;
    uint64_t budget = 0;  // steps until failures are remembered
    uint64_t spent = 0;
    bool remembering = false;
  };

  // Finds the next match at or behind `pos`; sets `begin`, and `pos` to its end. Empty matches are
  // passed over.
  bool FindFrom(Search& search, size_t& pos, size_t& begin) const;
  // The end of the match that starts at `pos` by entry `start`, or npos.
  size_t MatchAt(Search& search, uint32_t start, size_t pos) const;
  void StartRemembering(Search& search) const;
  bool Visit(Search& search, const Instruction& loop, size_t pos) const;

  std::vector<Instruction> program_;
  std::vector<CodePointTable> sets_;
  uint32_t n_loops_ = 0;
  uint32_t word_set_ = 0;
  // The alternatives of the top level that can start with a character of this lead byte.
  std::array<std::vector<uint32_t>, 256> starts_;
};

}  // namespace colibri
