#include "text/regex.h"

#include <map>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "text/regex_syntax.h"

namespace colibri {
namespace {

// Counted repetitions are written out; this bounds what a small pattern can grow to.
constexpr size_t kMaxInstructions = 50'000;
// Steps for each byte before failures are remembered. Patterns of real tokenizers stay far below.
constexpr uint64_t kStepsPerByte = 8;
constexpr uint64_t kFreeSteps = 4096;

}  // namespace

// Builds the program from the end of the pattern to its start, so that every instruction knows what
// follows it: whether the rest can fail at all, and with which characters it can begin.
class RegexCompiler {
 public:
  explicit RegexCompiler(const UnicodeProperties& properties) : properties_(properties) {}

  Result<Regex> Compile(const RegexNode& root) {
    regex_.word_set_ = AddTable(properties_.Word());
    const uint32_t match = Add({.op = Regex::Op::kMatch}, {.sure = true, .nullable = true});
    std::vector<uint32_t> entries;
    if (root.kind == RegexNode::Kind::kChoice) {
      for (const auto& child : root.children) {
        COLIBRI_ASSIGN_OR_RETURN(const uint32_t entry, CompileNode(*child, match));
        entries.push_back(entry);
      }
    } else {
      COLIBRI_ASSIGN_OR_RETURN(const uint32_t entry, CompileNode(root, match));
      entries.push_back(entry);
    }
    IndexStarts(entries);
    return std::move(regex_);
  }

 private:
  // What is known of the program from an instruction on.
  struct Facts {
    bool sure = false;      // it matches whatever follows
    bool nullable = false;  // it may match before it consumes a character
    std::shared_ptr<const CodePointSet> first = std::make_shared<CodePointSet>();
  };

  uint32_t Add(Regex::Instruction instruction, Facts facts) {
    regex_.program_.push_back(instruction);
    facts_.push_back(std::move(facts));
    return static_cast<uint32_t>(regex_.program_.size() - 1);
  }

  uint32_t AddTable(const CodePointSet& set) {
    const auto [entry, added] =
        tables_.emplace(set.words(), static_cast<uint32_t>(regex_.sets_.size()));
    if (added) regex_.sets_.emplace_back(set);
    return entry->second;
  }

  // One shared copy of each distinct set: counted repetitions name the same class many times.
  Facts FactsOf(const CodePointSet& set) {
    std::shared_ptr<const CodePointSet>& shared = shared_[AddTable(set)];
    if (shared == nullptr) shared = std::make_shared<CodePointSet>(set);
    return {.first = shared};
  }

  static std::shared_ptr<const CodePointSet> Union(const Facts& a, const Facts& b) {
    if (a.first->Includes(*b.first)) return a.first;
    if (b.first->Includes(*a.first)) return b.first;
    auto set = std::make_shared<CodePointSet>(*a.first);
    set->AddSet(*b.first);
    return set;
  }

  // All compilations go through here: depth is bounded by the parser's cap.
  Result<uint32_t> CompileNode(const RegexNode& node, uint32_t next) {
    if (regex_.program_.size() > kMaxInstructions) {
      return Unsupported("a regular expression whose repetitions are too large");
    }
    switch (node.kind) {
      case RegexNode::Kind::kSet:
        return CompileSet(*node.set, next);
      case RegexNode::Kind::kConcat:
        for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
          COLIBRI_ASSIGN_OR_RETURN(next, CompileNode(**child, next));
        }
        return next;
      case RegexNode::Kind::kChoice:
        return CompileChoice(node, next);
      case RegexNode::Kind::kRepeat:
        return CompileRepeat(node, next);
      case RegexNode::Kind::kLook: {
        Facts facts = facts_[next];
        facts.sure = false;
        return Add({.op = Regex::Op::kLookahead,
                    .negated = node.negated,
                    .next = next,
                    .set = AddTable(*node.set)},
                   std::move(facts));
      }
      case RegexNode::Kind::kAssert: {
        Facts facts = facts_[next];
        facts.sure = false;
        return Add({.op = AssertOp(node.assertion), .negated = node.negated, .next = next},
                   std::move(facts));
      }
    }
    return Internal("a regular expression's node of no kind");
  }

  static Regex::Op AssertOp(RegexNode::Assertion assertion) {
    switch (assertion) {
      case RegexNode::Assertion::kLineBegin:
        return Regex::Op::kLineBegin;
      case RegexNode::Assertion::kLineEnd:
        return Regex::Op::kLineEnd;
      case RegexNode::Assertion::kTextBegin:
        return Regex::Op::kTextBegin;
      case RegexNode::Assertion::kTextEnd:
        return Regex::Op::kTextEnd;
      case RegexNode::Assertion::kWordBoundary:
        break;
    }
    return Regex::Op::kWordBoundary;
  }

  uint32_t CompileSet(const CodePointSet& set, uint32_t next) {
    return Add({.op = Regex::Op::kClass, .next = next, .set = AddTable(set)}, FactsOf(set));
  }

  uint32_t Fork(uint32_t preferred, uint32_t other) {
    Facts facts;
    facts.sure = facts_[preferred].sure || facts_[other].sure;
    facts.nullable = facts_[preferred].nullable || facts_[other].nullable;
    facts.first = Union(facts_[preferred], facts_[other]);
    return Add({.op = Regex::Op::kFork, .next = preferred, .other = other}, std::move(facts));
  }

  Result<uint32_t> CompileChoice(const RegexNode& node, uint32_t next) {
    std::optional<uint32_t> chain;
    for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
      COLIBRI_ASSIGN_OR_RETURN(const uint32_t entry, CompileNode(**child, next));
      chain = chain ? Fork(entry, *chain) : entry;
    }
    return chain.value_or(next);
  }

  // A repetition of one class need not give anything back when what follows can't fail, or can't
  // begin with what the class holds.
  bool NeverGivesBack(const RegexNode& repeat, const CodePointSet& set, uint32_t next) const {
    if (repeat.greed == RegexNode::Greed::kPossessive) return true;
    if (repeat.greed == RegexNode::Greed::kLazy) return false;
    if (facts_[next].sure) return true;
    return !facts_[next].nullable && !facts_[next].first->Intersects(set);
  }

  Result<uint32_t> CompileRepeat(const RegexNode& node, uint32_t next) {
    const RegexNode& body = *node.children[0];
    const bool greedy = node.greed != RegexNode::Greed::kLazy;
    const bool is_set = body.kind == RegexNode::Kind::kSet;
    if (!is_set && CanBeEmpty(body)) {
      return Unsupported("a regular expression that repeats a group which can match nothing");
    }
    if (node.max == RegexNode::kUnbounded) {
      if (is_set && NeverGivesBack(node, *body.set, next)) {
        next = AddSetAhead(Regex::Op::kPossessive, *body.set, next);
        regex_.program_[next].loop = regex_.n_loops_++;
      } else {
        COLIBRI_ASSIGN_OR_RETURN(next, CompileLoop(body, next, greedy));
      }
    } else if (is_set && node.min == 0 && node.max == 1 && NeverGivesBack(node, *body.set, next)) {
      next = AddSetAhead(Regex::Op::kOption, *body.set, next);
    } else {
      if (node.greed == RegexNode::Greed::kPossessive) {
        return Unsupported("a regular expression with a possessive counted repetition");
      }
      const uint32_t after = next;
      for (uint32_t i = node.min; i < node.max; ++i) {
        COLIBRI_ASSIGN_OR_RETURN(const uint32_t entry, CompileNode(body, next));
        next = greedy ? Fork(entry, after) : Fork(after, entry);
      }
    }
    for (uint32_t i = 0; i < node.min; ++i) {
      COLIBRI_ASSIGN_OR_RETURN(next, CompileNode(body, next));
    }
    return next;
  }

  // An instruction that takes characters of `set` where it can, and then goes on with `next`.
  uint32_t AddSetAhead(Regex::Op op, const CodePointSet& set, uint32_t next) {
    Facts facts = facts_[next];
    facts.first = Union(facts, FactsOf(set));
    return Add({.op = op, .next = next, .set = AddTable(set)}, std::move(facts));
  }

  Result<uint32_t> CompileLoop(const RegexNode& body, uint32_t next, bool greedy) {
    const uint32_t loop = Add({.op = Regex::Op::kLoop, .loop = regex_.n_loops_++}, facts_[next]);
    COLIBRI_ASSIGN_OR_RETURN(const uint32_t entry, CompileNode(body, loop));
    regex_.program_[loop].next = greedy ? entry : next;
    regex_.program_[loop].other = greedy ? next : entry;
    facts_[loop].first = Union(facts_[entry], facts_[next]);
    // The body's own facts were made before the loop knew its first characters; they hold since the
    // body consumes at least one character before it comes back.
    return loop;
  }

  static bool CanBeEmpty(const RegexNode& node) {
    switch (node.kind) {
      case RegexNode::Kind::kSet:
        return false;
      case RegexNode::Kind::kConcat:
        for (const auto& child : node.children) {
          if (!CanBeEmpty(*child)) return false;
        }
        return true;
      case RegexNode::Kind::kChoice:
        for (const auto& child : node.children) {
          if (CanBeEmpty(*child)) return true;
        }
        return false;
      case RegexNode::Kind::kRepeat:
        return node.min == 0 || CanBeEmpty(*node.children[0]);
      case RegexNode::Kind::kLook:
      case RegexNode::Kind::kAssert:
        return true;
    }
    return true;
  }

  // For every lead byte, the alternatives that can begin with a character it opens.
  void IndexStarts(const std::vector<uint32_t>& entries) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t low = byte, high = byte;
      if (byte >= 0x80) {
        if (byte < 0xC2 || byte > 0xF4) continue;
        const uint32_t shift = byte < 0xE0 ? 6 : byte < 0xF0 ? 12 : 18;
        low = (byte & (byte < 0xE0 ? 0x1Fu : byte < 0xF0 ? 0x0Fu : 0x07u)) << shift;
        high = std::min(low + (1u << shift) - 1, kCodePoints - 1);
      }
      for (const uint32_t entry : entries) {
        if (facts_[entry].nullable || facts_[entry].first->IntersectsRange(low, high)) {
          regex_.starts_[byte].push_back(entry);
        }
      }
    }
  }

  const UnicodeProperties& properties_;
  Regex regex_;
  std::vector<Facts> facts_;
  std::map<std::vector<uint64_t>, uint32_t> tables_;
  std::map<uint32_t, std::shared_ptr<const CodePointSet>> shared_;  // by table
};

Result<Regex> Regex::Compile(std::string_view pattern, const UnicodeProperties& properties) {
  COLIBRI_ASSIGN_OR_RETURN(const auto root, ParseRegex(pattern, properties));
  Result<Regex> regex = RegexCompiler(properties).Compile(*root);
  if (!regex.ok()) {
    return std::move(regex).status().WithContext(
        StrCat("regular expression '", Printable(pattern, 200), "'"));
  }
  return regex;
}

// From here on, what a loop could not match from a position is not tried again.
void Regex::StartRemembering(Search& search) const {
  if (search.remembering) return;
  search.remembering = true;
  search.scratch.visited.assign(((search.text.size() + 1) * n_loops_ + 63) / 64, 0);
}

// True when the loop was not yet tried at `pos`; marks it as tried.
bool Regex::Visit(Search& search, const Instruction& loop, size_t pos) const {
  const size_t bit = pos * n_loops_ + loop.loop;
  uint64_t& word = search.scratch.visited[bit >> 6];
  const uint64_t mask = uint64_t{1} << (bit & 63);
  if ((word & mask) != 0) return false;
  word |= mask;
  return true;
}

bool Regex::FindFrom(Search& search, size_t& pos, size_t& begin) const {
  const std::string_view text = search.text;
  search.budget = kFreeSteps + kStepsPerByte * text.size();
  while (pos < text.size()) {
    for (const uint32_t start : starts_[static_cast<uint8_t>(text[pos])]) {
      const size_t end = MatchAt(search, start, pos);
      if (end == std::string_view::npos) continue;
      if (search.remembering) {  // what led to this match did not fail: forget it where it ended
        for (uint32_t loop = 0; loop < n_loops_; ++loop) {
          const size_t bit = end * n_loops_ + loop;
          search.scratch.visited[bit >> 6] &= ~(uint64_t{1} << (bit & 63));
        }
      }
      if (end == pos) break;  // an empty match is none
      begin = pos;
      pos = end;
      return true;
    }
    pos += SequenceLength(text[pos]);
  }
  return false;
}

size_t Regex::MatchAt(Search& search, uint32_t start, size_t pos) const {
  const std::string_view text = search.text;
  std::vector<RegexScratch::Choice>& choices = search.scratch.choices;
  choices.clear();
  uint64_t steps = 0;
  uint32_t at = start;
  size_t result = std::string_view::npos;
  const auto in_set = [&](uint32_t set, size_t& p) {
    return sets_[set].Contains(NextCodePoint(text, p));
  };
  while (true) {
    const Instruction& instruction = program_[at];
    ++steps;
    bool ok = true;
    switch (instruction.op) {
      case Op::kMatch:
        result = pos;
        search.scratch.steps += steps;
        search.spent += steps;
        return result;
      case Op::kClass:
        ok = pos < text.size() && in_set(instruction.set, pos);
        break;
      case Op::kOption: {
        size_t after = pos;
        if (pos < text.size() && in_set(instruction.set, after)) pos = after;
        break;
      }
      case Op::kLoop:
        if (search.remembering) {
          if (!Visit(search, instruction, pos)) {
            ok = false;
            break;
          }
        } else if (steps + search.spent > search.budget) {
          StartRemembering(search);
        }
        choices.push_back({instruction.other, pos});
        break;
      case Op::kFork:
        choices.push_back({instruction.other, pos});
        break;
      case Op::kPossessive:
        if (steps + search.spent > search.budget) StartRemembering(search);
        while (pos < text.size()) {
          size_t after = pos;
          if (!in_set(instruction.set, after)) break;
          pos = after;
          ++steps;
          if (search.remembering && !Visit(search, instruction, pos)) {
            ok = false;
            break;
          }
        }
        break;
      case Op::kLookahead: {
        size_t after = pos;
        ok = (pos < text.size() && in_set(instruction.set, after)) != instruction.negated;
        break;
      }
      case Op::kLineBegin:
        ok = pos == 0 || (text[pos - 1] == '\n' && pos < text.size());
        break;
      case Op::kLineEnd:
        ok = pos == text.size() || text[pos] == '\n';
        break;
      case Op::kTextBegin:
        ok = pos == 0;
        break;
      case Op::kTextEnd:
        ok = pos == text.size();
        break;
      case Op::kWordBoundary: {
        size_t after = pos;
        const bool left = pos > 0 && sets_[word_set_].Contains(PreviousCodePoint(text, pos));
        const bool right = pos < text.size() && in_set(word_set_, after);
        ok = (left != right) != instruction.negated;
        break;
      }
    }
    if (ok) {
      at = instruction.next;
    } else if (!choices.empty()) {
      at = choices.back().instruction;
      pos = choices.back().pos;
      choices.pop_back();
    } else {
      break;
    }
  }
  search.scratch.steps += steps;
  search.spent += steps;
  return result;
}

}  // namespace colibri
