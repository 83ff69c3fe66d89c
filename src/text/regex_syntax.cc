#include "text/regex_syntax.h"

#include <utf8proc.h>

#include <utility>

#include "base/strings.h"

namespace colibri {
namespace {

using NodePtr = std::unique_ptr<RegexNode>;

// A bound on repetition counts that are written out, as in \s{512}.
constexpr uint32_t kMaxRepeat = 2000;

NodePtr MakeNode(RegexNode::Kind kind) {
  auto node = std::make_unique<RegexNode>();
  node->kind = kind;
  return node;
}

// Adds the simple case variants of every member: what (?i) makes of a character.
void AddCaseVariants(CodePointSet& set) {
  CodePointSet more;
  for (uint32_t cp = 0; cp < kCodePoints; ++cp) {
    if (!set.Contains(cp)) continue;
    const auto signed_cp = static_cast<utf8proc_int32_t>(cp);
    more.Add(static_cast<uint32_t>(utf8proc_tolower(signed_cp)));
    more.Add(static_cast<uint32_t>(utf8proc_toupper(signed_cp)));
    more.Add(static_cast<uint32_t>(utf8proc_totitle(signed_cp)));
  }
  // The long s, and the Kelvin and Angstrom signs, fold to letters that do not map back.
  const auto tie = [&](uint32_t lower, uint32_t upper, uint32_t extra) {
    if (!set.Contains(lower) && !set.Contains(upper) && !set.Contains(extra)) return;
    more.Add(lower);
    more.Add(upper);
    more.Add(extra);
  };
  tie('s', 'S', 0x17F);
  tie('k', 'K', 0x212A);
  tie(0xE5, 0xC5, 0x212B);
  set.AddSet(more);
}

class Parser {
 public:
  Parser(std::string_view pattern, const UnicodeProperties& properties)
      : pattern_(pattern), properties_(properties) {}

  Result<NodePtr> Parse() {
    if (pattern_.size() > kMaxRegexBytes) {
      return NotSupported(StrCat("a pattern of ", pattern_.size(), " bytes"));
    }
    COLIBRI_ASSIGN_OR_RETURN(NodePtr node, ParseChoice(0));
    if (!AtEnd()) return Malformed("an unmatched ')'");
    return node;
  }

 private:
  bool AtEnd() const { return pos_ >= pattern_.size(); }
  char Peek() const { return AtEnd() ? '\0' : pattern_[pos_]; }
  bool LooksAt(std::string_view text) const { return pattern_.substr(pos_).starts_with(text); }
  bool Accept(std::string_view text) {
    if (!LooksAt(text)) return false;
    pos_ += text.size();
    return true;
  }
  Status Malformed(std::string_view what) const {
    return InvalidArgument(
        StrCat("regular expression '", Printable(pattern_, 200), "': ", what, " at offset ", pos_));
  }
  Status NotSupported(std::string_view what) const {
    return Unsupported(StrCat("regular expression '", Printable(pattern_, 200), "': ", what,
                              " at offset ", pos_, " is not supported"));
  }

  // The patterns nest a few levels; the cap keeps a hostile one from using up the stack.
  Result<NodePtr> ParseChoice(int depth) {
    if (depth > kMaxRegexDepth) return NotSupported("a group nested this deep");
    const bool outer_ignore_case = ignore_case_;
    NodePtr choice = MakeNode(RegexNode::Kind::kChoice);
    do {
      COLIBRI_ASSIGN_OR_RETURN(NodePtr branch, ParseConcat(depth));
      choice->children.push_back(std::move(branch));
    } while (Accept("|"));
    ignore_case_ = outer_ignore_case;
    if (choice->children.size() == 1) return std::move(choice->children[0]);
    return choice;
  }

  Result<NodePtr> ParseConcat(int depth) {
    NodePtr concat = MakeNode(RegexNode::Kind::kConcat);
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      COLIBRI_ASSIGN_OR_RETURN(NodePtr atom, ParseAtom(depth));
      if (atom == nullptr) continue;  // an option such as (?i)
      COLIBRI_ASSIGN_OR_RETURN(atom, ParseRepeats(std::move(atom)));
      concat->children.push_back(std::move(atom));
    }
    return concat;
  }

  Result<NodePtr> ParseAtom(int depth) {
    if (Accept("(")) return ParseGroup(depth);
    if (Peek() == '[') {
      COLIBRI_ASSIGN_OR_RETURN(CodePointSet set, ParseClass(0));
      return Literal(std::move(set));
    }
    if (Accept("^")) return Assert(RegexNode::Assertion::kLineBegin);
    if (Accept("$")) return Assert(RegexNode::Assertion::kLineEnd);
    if (Accept(".")) {
      CodePointSet set;
      set.Add('\n');
      set.Complement();
      return SetNode(std::move(set));
    }
    if (Peek() == '\\') {
      if (Accept("\\A")) return Assert(RegexNode::Assertion::kTextBegin);
      if (Accept("\\z")) return Assert(RegexNode::Assertion::kTextEnd);
      if (Accept("\\b")) return Assert(RegexNode::Assertion::kWordBoundary);
      if (Accept("\\B")) {
        NodePtr node = Assert(RegexNode::Assertion::kWordBoundary);
        node->negated = true;
        return node;
      }
      COLIBRI_ASSIGN_OR_RETURN(CodePointSet set, ParseEscape(nullptr));
      return Literal(std::move(set));
    }
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') return Malformed("nothing to repeat");
    CodePointSet set;
    set.Add(NextCodePoint(pattern_, pos_));
    return Literal(std::move(set));
  }

  Result<NodePtr> Literal(CodePointSet set) {
    if (ignore_case_) AddCaseVariants(set);
    return SetNode(std::move(set));
  }

  Result<NodePtr> SetNode(CodePointSet set) {
    if (++n_sets_ > kMaxRegexSets) {
      return NotSupported(StrCat("a pattern of more than ", kMaxRegexSets, " characters"));
    }
    NodePtr node = MakeNode(RegexNode::Kind::kSet);
    node->set = std::make_unique<CodePointSet>(std::move(set));
    return node;
  }

  NodePtr Assert(RegexNode::Assertion assertion) {
    NodePtr node = MakeNode(RegexNode::Kind::kAssert);
    node->assertion = assertion;
    return node;
  }

  Result<NodePtr> ParseGroup(int depth) {
    const bool outer_ignore_case = ignore_case_;
    enum class Group { kPlain, kAhead, kNotAhead } group = Group::kPlain;
    if (Accept("?=")) {
      group = Group::kAhead;
    } else if (Accept("?!")) {
      group = Group::kNotAhead;
    } else if (Accept("?i:")) {
      ignore_case_ = true;
    } else if (Accept("?-i:")) {
      ignore_case_ = false;
    } else if (Accept("?i)")) {
      ignore_case_ = true;  // for the rest of the enclosing group
      return NodePtr();
    } else if (Peek() == '?' && !Accept("?:")) {
      return NotSupported("a group of this kind");
    }
    COLIBRI_ASSIGN_OR_RETURN(NodePtr body, ParseChoice(depth + 1));
    ignore_case_ = outer_ignore_case;
    if (!Accept(")")) return Malformed("a group without its ')'");
    if (group == Group::kPlain) return body;
    while (body->kind == RegexNode::Kind::kConcat && body->children.size() == 1) {
      NodePtr only = std::move(body->children[0]);
      body = std::move(only);
    }
    if (body->kind != RegexNode::Kind::kSet) {
      return NotSupported("a lookahead for more than one character");
    }
    body->kind = RegexNode::Kind::kLook;
    body->negated = group == Group::kNotAhead;
    return body;
  }

  Result<NodePtr> ParseRepeats(NodePtr atom) {
    int repeats = 0;
    while (!AtEnd()) {
      uint32_t min = 0, max = RegexNode::kUnbounded;
      bool counted = false;
      if (Accept("*")) {
      } else if (Accept("+")) {
        min = 1;
      } else if (Accept("?")) {
        max = 1;
      } else if (Peek() == '{' && ParseCounts(min, max)) {
        counted = true;
        if (min > max || (max != RegexNode::kUnbounded && max > kMaxRepeat) || min > kMaxRepeat) {
          return NotSupported(StrCat("a repetition outside 0..", kMaxRepeat));
        }
      } else {
        break;
      }
      // Repetitions pile up only as far as groups may nest.
      if (++repeats > kMaxRegexDepth) return NotSupported("a repetition of repetitions");
      if (atom->kind == RegexNode::Kind::kLook || atom->kind == RegexNode::Kind::kAssert) {
        return NotSupported("a repeated assertion");
      }
      NodePtr repeat = MakeNode(RegexNode::Kind::kRepeat);
      repeat->min = min;
      repeat->max = max;
      if (Accept("?")) {
        repeat->greed = RegexNode::Greed::kLazy;
      } else if (!counted && Accept("+")) {  // {n,m}+ repeats the repetition in this syntax
        repeat->greed = RegexNode::Greed::kPossessive;
        if (atom->kind != RegexNode::Kind::kSet) {
          return NotSupported("a possessive repetition of more than one class");
        }
      }
      repeat->children.push_back(std::move(atom));
      atom = std::move(repeat);
    }
    return atom;
  }

  // {n}, {n,}, {,m}, {n,m}; otherwise the brace is a literal and nothing is consumed.
  bool ParseCounts(uint32_t& min, uint32_t& max) {
    size_t pos = pos_ + 1;
    const auto number = [&](uint32_t& value) {
      const size_t begin = pos;
      uint64_t n = 0;
      while (pos < pattern_.size() && pattern_[pos] >= '0' && pattern_[pos] <= '9') {
        n = n * 10 + static_cast<uint64_t>(pattern_[pos++] - '0');
        if (n > 100000) n = 100000;
      }
      if (pos > begin) value = static_cast<uint32_t>(n);
      return pos > begin;
    };
    const bool has_min = number(min);
    bool has_max = false;
    if (pos < pattern_.size() && pattern_[pos] == ',') {
      ++pos;
      has_max = number(max);
    } else if (has_min) {
      max = min;
    }
    if (pos >= pattern_.size() || pattern_[pos] != '}' || (!has_min && !has_max)) return false;
    pos_ = pos + 1;
    return true;
  }

  // An escape of one character or of a set. `single` receives the character when it is one.
  Result<CodePointSet> ParseEscape(std::optional<uint32_t>* single) {
    ++pos_;  // the backslash
    if (AtEnd()) return Malformed("a pattern that ends in a backslash");
    const char c = Peek();
    const auto one = [&](uint32_t cp) {
      CodePointSet set;
      set.Add(cp);
      if (single != nullptr) *single = cp;
      return set;
    };
    const auto complement_if = [](CodePointSet set, bool negate) {
      if (negate) set.Complement();
      return set;
    };
    switch (c) {
      case 'p':
      case 'P':
        return ParseProperty();
      case 's':
      case 'S':
        ++pos_;
        return complement_if(properties_.Space(), c == 'S');
      case 'd':
      case 'D':
        ++pos_;
        return complement_if(properties_.Digit(), c == 'D');
      case 'w':
      case 'W':
        ++pos_;
        return complement_if(properties_.Word(), c == 'W');
      case 'n':
        ++pos_;
        return one('\n');
      case 'r':
        ++pos_;
        return one('\r');
      case 't':
        ++pos_;
        return one('\t');
      case 'f':
        ++pos_;
        return one('\f');
      case 'v':
        ++pos_;
        return one('\v');
      case 'a':
        ++pos_;
        return one('\a');
      case 'e':
        ++pos_;
        return one(0x1B);
      case 'x':
      case 'u':
        return ParseHex(c, single);
      default:
        break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
      return NotSupported(StrCat("the escape \\", c));
    }
    return one(NextCodePoint(pattern_, pos_));
  }

  Result<CodePointSet> ParseHex(char kind, std::optional<uint32_t>* single) {
    ++pos_;
    const bool braces = kind == 'x' && Accept("{");
    const size_t max_digits = braces ? 8 : kind == 'u' ? 4 : 2;
    uint32_t value = 0;
    size_t digits = 0;
    while (!AtEnd() && digits < max_digits) {
      const char c = Peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
      ++digits;
      ++pos_;
    }
    if (digits == 0 || (kind == 'u' && digits != 4) || (braces && !Accept("}"))) {
      return Malformed("a broken hexadecimal escape");
    }
    if (value >= kCodePoints || (kind == 'x' && !braces && value >= 0x80)) {
      return NotSupported("this hexadecimal escape");
    }
    CodePointSet set;
    set.Add(value);
    if (single != nullptr) *single = value;
    return set;
  }

  Result<CodePointSet> ParseProperty() {
    bool negate = Peek() == 'P';
    ++pos_;
    std::string_view name;
    if (Accept("{")) {
      if (Accept("^")) negate = !negate;
      const size_t end = pattern_.find('}', pos_);
      if (end == std::string_view::npos) return Malformed("a property without its '}'");
      name = pattern_.substr(pos_, end - pos_);
      pos_ = end + 1;
    } else {
      return NotSupported("a property without braces");
    }
    std::optional<CodePointSet> set = properties_.ByName(name);
    if (!set) return NotSupported(StrCat("the property '", Printable(name), "' that ends"));
    if (negate) set->Complement();
    return std::move(*set);
  }

  // [...] with ranges, escapes, nested classes and &&.
  Result<CodePointSet> ParseClass(int depth) {
    if (depth > kMaxRegexDepth) return NotSupported("a class nested this deep");
    ++pos_;  // the bracket
    const bool negate = Accept("^");
    std::optional<CodePointSet> intersection;  // of what stands left of the last &&
    CodePointSet set;
    bool first = true;
    while (true) {
      if (AtEnd()) return Malformed("a class without its ']'");
      if (Peek() == ']' && !first) break;
      first = false;
      if (Accept("&&")) {
        if (intersection) {
          intersection->Intersect(set);
        } else {
          intersection = std::move(set);
        }
        set = CodePointSet();
        continue;
      }
      if (LooksAt("[:")) {
        return NotSupported("a POSIX bracket");
      }
      if (Peek() == '[') {
        COLIBRI_ASSIGN_OR_RETURN(const CodePointSet inner, ParseClass(depth + 1));
        set.AddSet(inner);
        continue;
      }
      COLIBRI_RETURN_IF_ERROR(ParseClassItem(set));
    }
    ++pos_;
    if (intersection) set.Intersect(*intersection);
    if (negate) {
      if (ignore_case_) AddCaseVariants(set);
      set.Complement();
    }
    return set;
  }

  Status ParseClassItem(CodePointSet& set) {
    COLIBRI_ASSIGN_OR_RETURN(const std::optional<uint32_t> low, ParseClassAtom(set));
    const bool range = low && Peek() == '-' && pos_ + 1 < pattern_.size() &&
                       pattern_[pos_ + 1] != ']' && pattern_[pos_ + 1] != '[' &&
                       !pattern_.substr(pos_ + 1).starts_with("&&");
    if (!range) {
      if (low) set.Add(*low);
      return Status();
    }
    ++pos_;
    CodePointSet high_set;
    COLIBRI_ASSIGN_OR_RETURN(const std::optional<uint32_t> high, ParseClassAtom(high_set));
    if (!high) return NotSupported("a range that ends in a set");
    if (*high < *low) return Malformed("a range that runs backwards");
    set.AddRange(*low, *high);
    return Status();
  }

  // One character, which is returned, or an escaped set, which is added to `set`.
  Result<std::optional<uint32_t>> ParseClassAtom(CodePointSet& set) {
    if (Peek() != '\\') return std::optional<uint32_t>(NextCodePoint(pattern_, pos_));
    if (Accept("\\b")) return std::optional<uint32_t>('\b');
    std::optional<uint32_t> single;
    COLIBRI_ASSIGN_OR_RETURN(const CodePointSet escaped, ParseEscape(&single));
    if (!single) set.AddSet(escaped);
    return single;
  }

  std::string_view pattern_;
  const UnicodeProperties& properties_;
  size_t pos_ = 0;
  bool ignore_case_ = false;
  int n_sets_ = 0;  // of the nodes so far
};

}  // namespace

Result<std::unique_ptr<RegexNode>> ParseRegex(std::string_view pattern,
                                              const UnicodeProperties& properties) {
  return Parser(pattern, properties).Parse();
}

}  // namespace colibri
