#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace colibri {
namespace {

constexpr uint32_t kFirstNotPlain = 0x300;   // everything below is a starter that NFC keeps
constexpr uint32_t kSmallTableEnd = 0x3100;  // up to the kana

const utf8proc_property_t& Property(uint32_t cp) {
  return *utf8proc_get_property(static_cast<utf8proc_int32_t>(cp));
}

// Hugging Face tokenizers normalize with the tables of Unicode 9. Later characters that combine or
// decompose are inert there, so they are here: a model's ids depend on it.
struct Range {
  uint32_t first;
  uint32_t last;
};
constexpr Range kInert[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10780, 0x107BA}, {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

bool IsInert(uint32_t cp) {
  if (cp < kInert[0].first) return false;
  const auto range = std::partition_point(std::begin(kInert), std::end(kInert),
                                          [&](const Range& r) { return r.last < cp; });
  return range != std::end(kInert) && range->first <= cp;
}

// A starter that never changes under NFC and never joins the character before it.
bool IsPlainByProperty(uint32_t cp) {
  if (cp < kFirstNotPlain) return true;
  if (cp >= 0xAC00 && cp <= 0xD7A3) return true;   // Hangul syllables are composed
  if (cp >= 0x1100 && cp <= 0x11FF) return false;  // jamo compose
  if (IsInert(cp)) return true;
  const utf8proc_property_t& property = Property(cp);
  // comb_index: below 0x8000 the character may be the first half of a composition, which only a
  // character that is not plain can complete; at or above it is a second half.
  return property.combining_class == 0 && property.decomp_seqindex == UINT16_MAX &&
         (property.comb_index == UINT16_MAX || property.comb_index < 0x8000);
}

// Moves marks between starters into canonical order: a stable sort by class, run by run.
void SortMarks(std::vector<utf8proc_int32_t>& cps) {
  const auto mark_class = [](utf8proc_int32_t cp) {
    return Property(static_cast<uint32_t>(cp)).combining_class;
  };
  for (size_t begin = 0; begin < cps.size();) {
    if (cps[begin] < static_cast<utf8proc_int32_t>(kFirstNotPlain) || mark_class(cps[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < cps.size() && mark_class(cps[end]) != 0) ++end;
    std::stable_sort(
        cps.begin() + static_cast<ptrdiff_t>(begin), cps.begin() + static_cast<ptrdiff_t>(end),
        [&](utf8proc_int32_t a, utf8proc_int32_t b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
}

// Orders and composes decomposed characters, appends them to `out` and clears them.
void FinishDecomposed(std::vector<utf8proc_int32_t>& cps, UnicodeForm form, std::string& out) {
  SortMarks(cps);
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) {
    const utf8proc_ssize_t n = utf8proc_normalize_utf32(
        cps.data(), static_cast<utf8proc_ssize_t>(cps.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    COLIBRI_CHECK(n >= 0);
    cps.resize(static_cast<size_t>(n));
  }
  for (const utf8proc_int32_t cp : cps) AppendUtf8(static_cast<uint32_t>(cp), out);
  cps.clear();
}

// utf8proc's own utf8proc_decompose sorts marks in quadratic time, so only its character tables and
// its composition are used.
void NormalizeInto(std::string_view text, UnicodeForm form, std::string& out) {
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> cps;
  utf8proc_int32_t parts[64];  // the longest decomposition has 18
  for (size_t pos = 0; pos < text.size();) {
    const uint32_t cp = NextCodePoint(text, pos);
    if (IsInert(cp)) {
      FinishDecomposed(cps, form, out);
      AppendUtf8(cp, out);
      continue;
    }
    int last_class = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(cp), parts, 64, options, &last_class);
    COLIBRI_CHECK(n >= 0 && n <= 64);
    cps.insert(cps.end(), parts, parts + n);
  }
  FinishDecomposed(cps, form, out);
}

// The offset of the first byte that may open a character at or above U+0300.
size_t SkipPlainBytes(std::string_view text, size_t pos) {
  while (pos < text.size() && static_cast<uint8_t>(text[pos]) < 0xCC) ++pos;
  return pos;
}

class UnicodeStep : public NormalizerStep {
 public:
  explicit UnicodeStep(UnicodeForm form) : form_(form) {
    if (form != UnicodeForm::kNfc) return;
    // Composed letters (Greek, Cyrillic, Vietnamese) are plain too; the table answers for them.
    small_.resize(kSmallTableEnd);
    for (uint32_t cp = 0; cp < kSmallTableEnd; ++cp) {
      small_[cp] = IsPlainByProperty(cp) || IsStableComposite(cp) ? 1 : 0;
    }
  }

  void Apply(std::string& text) const override {
    if (form_ == UnicodeForm::kNfc) {
      ApplyNfc(text);
      return;
    }
    if (std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; })) return;
    std::string out;
    out.reserve(text.size());
    NormalizeInto(text, form_, out);
    text = std::move(out);
  }

 private:
  static bool IsStableComposite(uint32_t cp) {
    const utf8proc_property_t& property = Property(cp);
    // The first half of a composition may change only by what follows, which is then not plain.
    if (property.combining_class != 0 || (cp >= 0x1100 && cp <= 0x11FF)) return false;
    if (property.comb_index != UINT16_MAX && property.comb_index >= 0x8000) return false;
    std::string text, out;
    AppendUtf8(cp, text);
    NormalizeInto(text, UnicodeForm::kNfc, out);
    return out == text;
  }

  bool IsPlain(uint32_t cp) const {
    return cp < kSmallTableEnd ? small_[cp] != 0 : IsPlainByProperty(cp);
  }

  // Copies plain stretches and normalises what lies between: from the starter before a character
  // that is not plain up to the next plain one.
  void ApplyNfc(std::string& text) const {
    if (SkipPlainBytes(text, 0) == text.size()) return;
    std::string out;
    size_t copied = 0;      // text before this is in `out` or needs nothing
    size_t last_start = 0;  // where the character before `pos` starts
    size_t pos = 0;
    bool changed = false;
    while (pos < text.size()) {
      const size_t plain_end = SkipPlainBytes(text, pos);
      if (plain_end > pos) {
        pos = plain_end;
        last_start = pos - 1;
        while (last_start > 0 && (static_cast<uint8_t>(text[last_start]) & 0xC0) == 0x80) {
          --last_start;
        }
        if (pos == text.size()) break;
      }
      const size_t start = pos;
      if (IsPlain(NextCodePoint(text, pos))) {
        last_start = start;
        continue;
      }
      const size_t segment = start == 0 ? 0 : std::max(last_start, copied);
      while (pos < text.size()) {
        size_t after = pos;
        if (IsPlain(NextCodePoint(text, after))) break;
        pos = after;
      }
      out.append(text, copied, segment - copied);
      NormalizeInto(std::string_view(text).substr(segment, pos - segment), UnicodeForm::kNfc, out);
      copied = pos;
      last_start = pos;
      changed = true;
    }
    if (!changed) return;
    out.append(text, copied, std::string::npos);
    text = std::move(out);
  }

  UnicodeForm form_;
  std::vector<uint8_t> small_;
};

class LowercaseStep : public NormalizerStep {
 public:
  void Apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t pos = 0; pos < text.size();) {
      const uint32_t cp = NextCodePoint(text, pos);
      if (cp == 0x130) {  // the only character whose lower case is two
        out += "i\xCC\x87";
      } else {
        AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(cp))), out);
      }
    }
    text = std::move(out);
  }
};

class PrependStep : public NormalizerStep {
 public:
  explicit PrependStep(std::string prefix) : prefix_(std::move(prefix)) {}
  void Apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplaceStep : public NormalizerStep {
 public:
  ReplaceStep(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void Apply(std::string& text) const override { ReplaceAll(text, from_, to_); }

 private:
  std::string from_, to_;
};

class ReplaceRegexStep : public NormalizerStep {
 public:
  ReplaceRegexStep(Regex pattern, std::string to)
      : pattern_(std::move(pattern)), to_(std::move(to)) {}
  void Apply(std::string& text) const override {
    RegexScratch scratch;
    std::string out;
    size_t copied = 0;
    pattern_.ForEachMatch(text, scratch, [&](size_t begin, size_t end) {
      out.append(text, copied, begin - copied);
      out += to_;
      copied = end;
    });
    if (copied == 0) return;
    out.append(text, copied, std::string::npos);
    text = std::move(out);
  }

 private:
  Regex pattern_;
  std::string to_;
};

class StripStep : public NormalizerStep {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}
  void Apply(std::string& text) const override {
    size_t begin = 0, end = text.size();
    while (left_ && begin < end) {
      size_t after = begin;
      if (!IsSpace(NextCodePoint(text, after))) break;
      begin = after;
    }
    while (right_ && begin < end && IsSpace(PreviousCodePoint(text, end))) {
      do {
        --end;
      } while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
    }
    text = text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class StripAccentsStep : public NormalizerStep {
 public:
  void Apply(std::string& text) const override {
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const uint32_t cp = NextCodePoint(text, pos);
      const uint8_t category = UnicodeCategory(cp);
      if (category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC &&
          category != UTF8PROC_CATEGORY_ME) {
        AppendUtf8(cp, out);
      }
    }
    text = std::move(out);
  }
};

class ByteLevelStep : public NormalizerStep {
 public:
  void Apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size() * 2);
    AppendByteLevel(text, out);
    text = std::move(out);
  }
};

}  // namespace

std::string NormalizeUnicode(std::string_view text, UnicodeForm form) {
  std::string out;
  NormalizeInto(text, form, out);
  return out;
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  out.reserve(text.size() + to.size());
  size_t copied = 0;
  while (at != std::string::npos) {
    out.append(text, copied, at - copied);
    out += to;
    copied = at + from.size();
    at = text.find(from, copied);
  }
  out.append(text, copied, std::string::npos);
  text = std::move(out);
}

bool IsSpace(uint32_t cp) {
  return (cp >= 0x09 && cp <= 0x0D) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
         (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
         cp == 0x205F || cp == 0x3000;
}

std::unique_ptr<NormalizerStep> MakeUnicodeStep(UnicodeForm form) {
  return std::make_unique<UnicodeStep>(form);
}
std::unique_ptr<NormalizerStep> MakeLowercaseStep() {
  return std::make_unique<LowercaseStep>();
}
std::unique_ptr<NormalizerStep> MakePrependStep(std::string prefix) {
  return std::make_unique<PrependStep>(std::move(prefix));
}
std::unique_ptr<NormalizerStep> MakeReplaceStep(std::string from, std::string to) {
  return std::make_unique<ReplaceStep>(std::move(from), std::move(to));
}
std::unique_ptr<NormalizerStep> MakeReplaceStep(Regex pattern, std::string to) {
  return std::make_unique<ReplaceRegexStep>(std::move(pattern), std::move(to));
}
std::unique_ptr<NormalizerStep> MakeStripStep(bool left, bool right) {
  return std::make_unique<StripStep>(left, right);
}
std::unique_ptr<NormalizerStep> MakeStripAccentsStep() {
  return std::make_unique<StripAccentsStep>();
}
std::unique_ptr<NormalizerStep> MakeByteLevelStep() {
  return std::make_unique<ByteLevelStep>();
}

}  // namespace colibri
