#include "text/json_components.h"

#include <utility>

namespace colibri {
namespace {

// Sequences inside sequences, and the parts of all of them; a real file nests once and has a few.
constexpr int kMaxNesting = 8;
constexpr int kMaxParts = 64;

Status UnknownType(const JsonObject& component, std::string_view type) {
  return Unsupported(
      StrCat(component.path(), ": the type '", Printable(type), "' is not supported"));
}

// Calls visit for the component, or for each part of a "Sequence" in order. `parts_key` names the
// array of a sequence.
template <typename Visit>
class FlatVisitor {
 public:
  FlatVisitor(std::string_view parts_key, const Visit& visit)
      : parts_key_(parts_key), visit_(visit) {}

  Status Run(const JsonObject& component, int depth) {
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view type, component.RequireString("type"));
    if (++n_parts_ > kMaxParts) {
      return Unsupported(StrCat(component.path(), ": more than ", kMaxParts, " parts"));
    }
    if (type != "Sequence") return visit_(component, type);
    if (depth >= kMaxNesting) {
      return Unsupported(StrCat(component.path(), ": sequences nested deeper than ", kMaxNesting));
    }
    COLIBRI_ASSIGN_OR_RETURN(const simdjson::dom::array array, component.RequireArray(parts_key_));
    size_t index = 0;
    for (const JsonObject::Element element : array) {
      COLIBRI_ASSIGN_OR_RETURN(
          const JsonObject part,
          JsonObject::From(element, StrCat(component.PathOf(parts_key_), "[", index++, "]")));
      COLIBRI_RETURN_IF_ERROR(Run(part, depth + 1));
    }
    return Status();
  }

 private:
  std::string_view parts_key_;
  const Visit& visit_;
  int n_parts_ = 0;  // visited so far, sequences counted in
};

template <typename Visit>
Status VisitFlat(const JsonObject& component, std::string_view parts_key, const Visit& visit) {
  return FlatVisitor<Visit>(parts_key, visit).Run(component, 0);
}

// {"String": ...} or {"Regex": ...}
struct Pattern {
  bool is_regex = false;
  std::string_view text;
};

Result<Pattern> ReadPattern(const JsonObject& component) {
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject pattern, component.RequireObject("pattern"));
  if (pattern.Find("Regex")) {
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view text, pattern.RequireString("Regex"));
    return Pattern{.is_regex = true, .text = text};
  }
  COLIBRI_ASSIGN_OR_RETURN(const std::string_view text, pattern.RequireString("String"));
  if (text.empty()) return CorruptData(StrCat(pattern.PathOf("String"), ": an empty pattern"));
  return Pattern{.is_regex = false, .text = text};
}

Result<Regex> CompilePattern(const JsonObject& component, std::string_view pattern,
                             const UnicodeProperties& properties) {
  Result<Regex> regex = Regex::Compile(pattern, properties);
  if (!regex.ok()) return std::move(regex).status().WithContext(component.path());
  return regex;
}

Result<SplitBehavior> ReadBehavior(const JsonObject& component, SplitBehavior when_absent) {
  COLIBRI_ASSIGN_OR_RETURN(const std::string_view name, component.OptionalString("behavior"));
  if (name.empty()) return when_absent;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return Unsupported(
      StrCat(component.PathOf("behavior"), ": '", Printable(name), "' is not supported"));
}

Status AddNormalizer(const JsonObject& component, std::string_view type,
                     const UnicodeProperties& properties, Normalizer& out) {
  if (type == "NFC") {
    out.Add(MakeUnicodeStep(UnicodeForm::kNfc));
  } else if (type == "NFD") {
    out.Add(MakeUnicodeStep(UnicodeForm::kNfd));
  } else if (type == "NFKC") {
    out.Add(MakeUnicodeStep(UnicodeForm::kNfkc));
  } else if (type == "NFKD") {
    out.Add(MakeUnicodeStep(UnicodeForm::kNfkd));
  } else if (type == "Lowercase") {
    out.Add(MakeLowercaseStep());
  } else if (type == "StripAccents") {
    out.Add(MakeStripAccentsStep());
  } else if (type == "ByteLevel") {
    out.Add(MakeByteLevelStep());
  } else if (type == "Prepend") {
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view prefix, component.RequireString("prepend"));
    out.Add(MakePrependStep(std::string(prefix)));
  } else if (type == "Strip") {
    COLIBRI_ASSIGN_OR_RETURN(const bool left, component.Bool("strip_left", true));
    COLIBRI_ASSIGN_OR_RETURN(const bool right, component.Bool("strip_right", true));
    out.Add(MakeStripStep(left, right));
  } else if (type == "Replace") {
    COLIBRI_ASSIGN_OR_RETURN(const Pattern pattern, ReadPattern(component));
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view content, component.RequireString("content"));
    if (pattern.is_regex) {
      COLIBRI_ASSIGN_OR_RETURN(Regex regex, CompilePattern(component, pattern.text, properties));
      out.Add(MakeReplaceStep(std::move(regex), std::string(content)));
    } else {
      out.Add(MakeReplaceStep(std::string(pattern.text), std::string(content)));
    }
  } else {
    return UnknownType(component, type);
  }
  return Status();
}

Status AddMetaspace(const JsonObject& component, TokenizerParts& parts) {
  COLIBRI_ASSIGN_OR_RETURN(const std::string_view replacement,
                           component.RequireString("replacement"));
  if (replacement.empty() || SequenceLength(replacement[0]) != replacement.size()) {
    return CorruptData(StrCat(component.PathOf("replacement"), ": expected one character"));
  }
  COLIBRI_ASSIGN_OR_RETURN(const bool prefix_space, component.Bool("add_prefix_space", true));
  COLIBRI_ASSIGN_OR_RETURN(const std::string_view name, component.OptionalString("prepend_scheme"));
  COLIBRI_ASSIGN_OR_RETURN(const bool split, component.Bool("split", true));
  PrependScheme scheme = PrependScheme::kAlways;
  if (name == "first") {
    scheme = PrependScheme::kFirst;
  } else if (name == "never" || (name.empty() && !prefix_space)) {
    scheme = PrependScheme::kNever;
  } else if (!name.empty() && name != "always") {
    return Unsupported(
        StrCat(component.PathOf("prepend_scheme"), ": '", Printable(name), "' is not supported"));
  }
  parts.pre_tokenizer.push_back(MakeMetaspaceStep(std::string(replacement), scheme, split));
  return Status();
}

class PreTokenizerReader {
 public:
  PreTokenizerReader(const UnicodeProperties& properties, TokenizerParts& parts)
      : properties_(properties), parts_(parts) {}

  bool byte_level() const { return byte_level_; }

  Status Add(const JsonObject& component, std::string_view type) {
    if (byte_level_) {
      return Unsupported(StrCat(component.path(), ": a pre-tokenizer behind ByteLevel"));
    }
    if (type == "ByteLevel") return AddByteLevel(component);
    if (type == "Metaspace") return AddMetaspace(component, parts_);
    if (type == "Split") return AddSplit(component);
    if (type == "Digits") {
      COLIBRI_ASSIGN_OR_RETURN(const bool single, component.Bool("individual_digits", false));
      return AddRegex(component, R"(\p{N})",
                      single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false);
    }
    if (type == "Punctuation") {
      COLIBRI_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                               ReadBehavior(component, SplitBehavior::kIsolated));
      return AddRegex(component, kPunctuationPattern, behavior, false);
    }
    if (type == "Whitespace") {
      // Here \w is that of Rust's regular expressions, which differs a little from Oniguruma's.
      return AddRegex(component,
                      R"([\w\x{200C}\x{200D}&&[^²³¹¼½¾]]+|[[^\w\s\x{200C}\x{200D}]²³¹¼½¾]+)",
                      SplitBehavior::kRemoved, true);
    }
    if (type == "WhitespaceSplit") {
      return AddRegex(component, R"(\s)", SplitBehavior::kRemoved, false);
    }
    if (type == "BertPreTokenizer") {
      COLIBRI_RETURN_IF_ERROR(AddRegex(component, R"(\s)", SplitBehavior::kRemoved, false));
      return AddRegex(component, kPunctuationPattern, SplitBehavior::kIsolated, false);
    }
    if (type == "CharDelimiterSplit") {
      COLIBRI_ASSIGN_OR_RETURN(const std::string_view mark, component.RequireString("delimiter"));
      if (mark.empty()) return CorruptData(StrCat(component.PathOf("delimiter"), ": empty"));
      parts_.pre_tokenizer.push_back(
          MakeSplitStep(std::string(mark), SplitBehavior::kRemoved, false));
      return Status();
    }
    return UnknownType(component, type);
  }

 private:
  static constexpr std::string_view kPunctuationPattern = R"([\p{P}!-/:-@\[-`{-~])";

  Status AddRegex(const JsonObject& component, std::string_view pattern, SplitBehavior behavior,
                  bool invert) {
    COLIBRI_ASSIGN_OR_RETURN(Regex regex, CompilePattern(component, pattern, properties_));
    parts_.pre_tokenizer.push_back(MakeSplitStep(std::move(regex), behavior, invert));
    return Status();
  }

  Status AddSplit(const JsonObject& component) {
    COLIBRI_ASSIGN_OR_RETURN(const Pattern pattern, ReadPattern(component));
    COLIBRI_ASSIGN_OR_RETURN(const bool invert, component.Bool("invert", false));
    if (!component.Find("behavior")) {
      return CorruptData(StrCat(component.PathOf("behavior"), ": missing"));
    }
    COLIBRI_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                             ReadBehavior(component, SplitBehavior::kIsolated));
    if (pattern.is_regex) return AddRegex(component, pattern.text, behavior, invert);
    parts_.pre_tokenizer.push_back(MakeSplitStep(std::string(pattern.text), behavior, invert));
    return Status();
  }

  Status AddByteLevel(const JsonObject& component) {
    COLIBRI_ASSIGN_OR_RETURN(const bool prefix_space, component.Bool("add_prefix_space", true));
    COLIBRI_ASSIGN_OR_RETURN(const bool use_regex, component.Bool("use_regex", true));
    if (prefix_space) parts_.pre_tokenizer.push_back(MakePrefixSpaceStep());
    if (use_regex) {
      COLIBRI_RETURN_IF_ERROR(AddRegex(component, kGpt2Pattern, SplitBehavior::kIsolated, false));
    }
    byte_level_ = true;
    return Status();
  }

  const UnicodeProperties& properties_;
  TokenizerParts& parts_;
  bool byte_level_ = false;
};

// The ids that a template's special token stands for.
Status AppendTemplateToken(const JsonObject& processor, std::string_view name,
                           const TokenizerParts& parts, std::vector<int32_t>& out) {
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject tokens, processor.RequireObject("special_tokens"));
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject token, tokens.RequireObject(name));
  COLIBRI_ASSIGN_OR_RETURN(const simdjson::dom::array ids, token.RequireArray("ids"));
  for (const JsonObject::Element element : ids) {
    uint64_t id = 0;
    if (element.get(id) != simdjson::SUCCESS || id >= parts.vocab.id_end() ||
        !parts.vocab.Contains(static_cast<int32_t>(id))) {
      return CorruptData(StrCat(token.PathOf("ids"), ": not the id of a token"));
    }
    out.push_back(static_cast<int32_t>(id));
  }
  return Status();
}

Status AddTemplate(const JsonObject& processor, TokenizerParts& parts) {
  COLIBRI_ASSIGN_OR_RETURN(const simdjson::dom::array single, processor.RequireArray("single"));
  std::vector<int32_t> before, after;
  bool seen_text = false;
  size_t index = 0;
  for (const JsonObject::Element element : single) {
    COLIBRI_ASSIGN_OR_RETURN(
        const JsonObject piece,
        JsonObject::From(element, StrCat(processor.PathOf("single"), "[", index++, "]")));
    if (piece.Find("Sequence")) {
      if (seen_text) return Unsupported(StrCat(piece.path(), ": a second sequence"));
      seen_text = true;
      continue;
    }
    COLIBRI_ASSIGN_OR_RETURN(const JsonObject special, piece.RequireObject("SpecialToken"));
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view name, special.RequireString("id"));
    COLIBRI_RETURN_IF_ERROR(
        AppendTemplateToken(processor, name, parts, seen_text ? after : before));
  }
  if (!seen_text) return CorruptData(StrCat(processor.PathOf("single"), ": no sequence"));
  // An outer template wraps what an inner one made.
  parts.prefix_ids.insert(parts.prefix_ids.begin(), before.begin(), before.end());
  parts.suffix_ids.insert(parts.suffix_ids.end(), after.begin(), after.end());
  return Status();
}

// ["token", id] of BertProcessing and RobertaProcessing.
Result<int32_t> ReadTokenPair(const JsonObject& processor, std::string_view key,
                              const TokenizerParts& parts) {
  COLIBRI_ASSIGN_OR_RETURN(const simdjson::dom::array pair, processor.RequireArray(key));
  uint64_t id = 0;
  if (pair.size() != 2 || pair.at(1).get(id) != simdjson::SUCCESS || id >= parts.vocab.id_end()) {
    return CorruptData(StrCat(processor.PathOf(key), ": expected a token and its id"));
  }
  return static_cast<int32_t>(id);
}

Status AddPostProcessor(const JsonObject& component, std::string_view type, TokenizerParts& parts) {
  if (type == "ByteLevel") return Status();  // concerns offsets alone
  if (type == "TemplateProcessing") return AddTemplate(component, parts);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    COLIBRI_ASSIGN_OR_RETURN(const int32_t cls, ReadTokenPair(component, "cls", parts));
    COLIBRI_ASSIGN_OR_RETURN(const int32_t sep, ReadTokenPair(component, "sep", parts));
    parts.prefix_ids.insert(parts.prefix_ids.begin(), cls);
    parts.suffix_ids.push_back(sep);
    return Status();
  }
  return UnknownType(component, type);
}

class DecoderReader {
 public:
  explicit DecoderReader(DecoderChain& out) : out_(out) {}

  Status Add(const JsonObject& component, std::string_view type) {
    if (type == "Fuse") {
      joined_ = true;
      any_ = true;
      return Status();
    }
    any_ = true;
    if (type == "Replace") {
      COLIBRI_ASSIGN_OR_RETURN(const Pattern pattern, ReadPattern(component));
      if (pattern.is_regex) {
        return Unsupported(StrCat(component.path(), ": a regular expression in a decoder"));
      }
      COLIBRI_ASSIGN_OR_RETURN(const std::string_view to, component.RequireString("content"));
      out_.Add(MakeReplaceStage(std::string(pattern.text), std::string(to), joined_));
      return Status();
    }
    if (type == "Strip") return AddStrip(component);
    if (joined_) {
      return Unsupported(StrCat(component.path(), ": the decoder '", Printable(type),
                                "' behind one that joins the tokens"));
    }
    if (type == "ByteLevel") {
      out_.Add(MakeByteLevelStage());
      joined_ = true;
      return Status();
    }
    if (type == "ByteFallback") {
      out_.Add(MakeByteFallbackStage());
      return Status();
    }
    if (type == "Metaspace") return AddMetaspaceDecoder(component);
    return UnknownType(component, type);
  }

  // Tokens pass through unchanged where the file lists stages but none that changes them.
  void Finish() {
    if (any_) out_.Join();
  }

 private:
  Status AddStrip(const JsonObject& component) {
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view content, component.RequireString("content"));
    if (content.empty() || SequenceLength(content[0]) != content.size()) {
      return CorruptData(StrCat(component.PathOf("content"), ": expected one character"));
    }
    COLIBRI_ASSIGN_OR_RETURN(const uint64_t start, component.Unsigned("start", 0));
    COLIBRI_ASSIGN_OR_RETURN(const uint64_t stop, component.Unsigned("stop", 0));
    out_.Add(MakeStripStage(std::string(content), start, stop, joined_));
    return Status();
  }

  Status AddMetaspaceDecoder(const JsonObject& component) {
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view replacement,
                             component.RequireString("replacement"));
    if (replacement.empty()) return CorruptData(StrCat(component.path(), ": empty replacement"));
    COLIBRI_ASSIGN_OR_RETURN(const bool prefix_space, component.Bool("add_prefix_space", true));
    COLIBRI_ASSIGN_OR_RETURN(const std::string_view scheme,
                             component.OptionalString("prepend_scheme"));
    const bool never = scheme.empty() ? !prefix_space : scheme == "never";
    out_.Add(MakeMetaspaceStage(std::string(replacement), !never));
    return Status();
  }

  DecoderChain& out_;
  bool joined_ = false;
  bool any_ = false;
};

}  // namespace

Status ReadNormalizer(const JsonObject& root, const UnicodeProperties& properties,
                      TokenizerParts& parts) {
  if (!root.Find("normalizer")) return Status();
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject component, root.RequireObject("normalizer"));
  return VisitFlat(component, "normalizers", [&](const JsonObject& part, std::string_view type) {
    return AddNormalizer(part, type, properties, parts.normalizer);
  });
}

Status ReadPreTokenizer(const JsonObject& root, const UnicodeProperties& properties,
                        TokenizerParts& parts, bool& byte_level) {
  byte_level = false;
  if (!root.Find("pre_tokenizer")) return Status();
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject component, root.RequireObject("pre_tokenizer"));
  PreTokenizerReader reader(properties, parts);
  COLIBRI_RETURN_IF_ERROR(VisitFlat(
      component, "pretokenizers",
      [&](const JsonObject& part, std::string_view type) { return reader.Add(part, type); }));
  byte_level = reader.byte_level();
  return Status();
}

Status ReadPostProcessor(const JsonObject& root, TokenizerParts& parts) {
  if (!root.Find("post_processor")) return Status();
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject component, root.RequireObject("post_processor"));
  return VisitFlat(component, "processors", [&](const JsonObject& part, std::string_view type) {
    return AddPostProcessor(part, type, parts);
  });
}

Status ReadDecoder(const JsonObject& root, TokenizerParts& parts) {
  if (!root.Find("decoder")) return Status();
  COLIBRI_ASSIGN_OR_RETURN(const JsonObject component, root.RequireObject("decoder"));
  DecoderReader reader(parts.decoder);
  COLIBRI_RETURN_IF_ERROR(VisitFlat(
      component, "decoders",
      [&](const JsonObject& part, std::string_view type) { return reader.Add(part, type); }));
  reader.Finish();
  return Status();
}

}  // namespace colibri
