#include "text/unicode.h"

#include <simdjson.h>
#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

namespace colibri {
namespace {

struct NamedMask {
  std::string_view name;
  uint32_t mask;
};

constexpr uint32_t Bit(utf8proc_category_t category) {
  return uint32_t{1} << category;
}

constexpr uint32_t kLetter = Bit(UTF8PROC_CATEGORY_LU) | Bit(UTF8PROC_CATEGORY_LL) |
                             Bit(UTF8PROC_CATEGORY_LT) | Bit(UTF8PROC_CATEGORY_LM) |
                             Bit(UTF8PROC_CATEGORY_LO);
constexpr uint32_t kMark =
    Bit(UTF8PROC_CATEGORY_MN) | Bit(UTF8PROC_CATEGORY_MC) | Bit(UTF8PROC_CATEGORY_ME);
constexpr uint32_t kNumber =
    Bit(UTF8PROC_CATEGORY_ND) | Bit(UTF8PROC_CATEGORY_NL) | Bit(UTF8PROC_CATEGORY_NO);
constexpr uint32_t kPunctuation = Bit(UTF8PROC_CATEGORY_PC) | Bit(UTF8PROC_CATEGORY_PD) |
                                  Bit(UTF8PROC_CATEGORY_PS) | Bit(UTF8PROC_CATEGORY_PE) |
                                  Bit(UTF8PROC_CATEGORY_PI) | Bit(UTF8PROC_CATEGORY_PF) |
                                  Bit(UTF8PROC_CATEGORY_PO);
constexpr uint32_t kSymbol = Bit(UTF8PROC_CATEGORY_SM) | Bit(UTF8PROC_CATEGORY_SC) |
                             Bit(UTF8PROC_CATEGORY_SK) | Bit(UTF8PROC_CATEGORY_SO);
constexpr uint32_t kSeparator =
    Bit(UTF8PROC_CATEGORY_ZS) | Bit(UTF8PROC_CATEGORY_ZL) | Bit(UTF8PROC_CATEGORY_ZP);
constexpr uint32_t kOther = Bit(UTF8PROC_CATEGORY_CC) | Bit(UTF8PROC_CATEGORY_CF) |
                            Bit(UTF8PROC_CATEGORY_CS) | Bit(UTF8PROC_CATEGORY_CO) |
                            Bit(UTF8PROC_CATEGORY_CN);

// Names as they are compared: lower case, without '_', '-' and spaces.
constexpr NamedMask kCategories[] = {
    {"l", kLetter},
    {"letter", kLetter},
    {"lu", Bit(UTF8PROC_CATEGORY_LU)},
    {"uppercaseletter", Bit(UTF8PROC_CATEGORY_LU)},
    {"ll", Bit(UTF8PROC_CATEGORY_LL)},
    {"lowercaseletter", Bit(UTF8PROC_CATEGORY_LL)},
    {"lt", Bit(UTF8PROC_CATEGORY_LT)},
    {"titlecaseletter", Bit(UTF8PROC_CATEGORY_LT)},
    {"lm", Bit(UTF8PROC_CATEGORY_LM)},
    {"modifierletter", Bit(UTF8PROC_CATEGORY_LM)},
    {"lo", Bit(UTF8PROC_CATEGORY_LO)},
    {"otherletter", Bit(UTF8PROC_CATEGORY_LO)},
    {"m", kMark},
    {"mark", kMark},
    {"combiningmark", kMark},
    {"mn", Bit(UTF8PROC_CATEGORY_MN)},
    {"nonspacingmark", Bit(UTF8PROC_CATEGORY_MN)},
    {"mc", Bit(UTF8PROC_CATEGORY_MC)},
    {"spacingmark", Bit(UTF8PROC_CATEGORY_MC)},
    {"me", Bit(UTF8PROC_CATEGORY_ME)},
    {"enclosingmark", Bit(UTF8PROC_CATEGORY_ME)},
    {"n", kNumber},
    {"number", kNumber},
    {"nd", Bit(UTF8PROC_CATEGORY_ND)},
    {"decimalnumber", Bit(UTF8PROC_CATEGORY_ND)},
    {"nl", Bit(UTF8PROC_CATEGORY_NL)},
    {"letternumber", Bit(UTF8PROC_CATEGORY_NL)},
    {"no", Bit(UTF8PROC_CATEGORY_NO)},
    {"othernumber", Bit(UTF8PROC_CATEGORY_NO)},
    {"p", kPunctuation},
    {"punctuation", kPunctuation},
    {"pc", Bit(UTF8PROC_CATEGORY_PC)},
    {"connectorpunctuation", Bit(UTF8PROC_CATEGORY_PC)},
    {"pd", Bit(UTF8PROC_CATEGORY_PD)},
    {"dashpunctuation", Bit(UTF8PROC_CATEGORY_PD)},
    {"ps", Bit(UTF8PROC_CATEGORY_PS)},
    {"openpunctuation", Bit(UTF8PROC_CATEGORY_PS)},
    {"pe", Bit(UTF8PROC_CATEGORY_PE)},
    {"closepunctuation", Bit(UTF8PROC_CATEGORY_PE)},
    {"pi", Bit(UTF8PROC_CATEGORY_PI)},
    {"initialpunctuation", Bit(UTF8PROC_CATEGORY_PI)},
    {"pf", Bit(UTF8PROC_CATEGORY_PF)},
    {"finalpunctuation", Bit(UTF8PROC_CATEGORY_PF)},
    {"po", Bit(UTF8PROC_CATEGORY_PO)},
    {"otherpunctuation", Bit(UTF8PROC_CATEGORY_PO)},
    {"s", kSymbol},
    {"symbol", kSymbol},
    {"sm", Bit(UTF8PROC_CATEGORY_SM)},
    {"mathsymbol", Bit(UTF8PROC_CATEGORY_SM)},
    {"sc", Bit(UTF8PROC_CATEGORY_SC)},
    {"currencysymbol", Bit(UTF8PROC_CATEGORY_SC)},
    {"sk", Bit(UTF8PROC_CATEGORY_SK)},
    {"modifiersymbol", Bit(UTF8PROC_CATEGORY_SK)},
    {"so", Bit(UTF8PROC_CATEGORY_SO)},
    {"othersymbol", Bit(UTF8PROC_CATEGORY_SO)},
    {"z", kSeparator},
    {"separator", kSeparator},
    {"zs", Bit(UTF8PROC_CATEGORY_ZS)},
    {"spaceseparator", Bit(UTF8PROC_CATEGORY_ZS)},
    {"zl", Bit(UTF8PROC_CATEGORY_ZL)},
    {"lineseparator", Bit(UTF8PROC_CATEGORY_ZL)},
    {"zp", Bit(UTF8PROC_CATEGORY_ZP)},
    {"paragraphseparator", Bit(UTF8PROC_CATEGORY_ZP)},
    {"c", kOther},
    {"other", kOther},
    {"cc", Bit(UTF8PROC_CATEGORY_CC)},
    {"control", Bit(UTF8PROC_CATEGORY_CC)},
    {"cf", Bit(UTF8PROC_CATEGORY_CF)},
    {"format", Bit(UTF8PROC_CATEGORY_CF)},
    {"cs", Bit(UTF8PROC_CATEGORY_CS)},
    {"surrogate", Bit(UTF8PROC_CATEGORY_CS)},
    {"co", Bit(UTF8PROC_CATEGORY_CO)},
    {"privateuse", Bit(UTF8PROC_CATEGORY_CO)},
    {"cn", Bit(UTF8PROC_CATEGORY_CN)},
    {"unassigned", Bit(UTF8PROC_CATEGORY_CN)},
};

struct Range {
  uint32_t first;
  uint32_t last;
};

// What Unicode 15.1 and 16 changed since the 15.0 of utf8proc 2.8: tokenizers of today use 16.
struct CategoryChange {
  uint32_t first;
  uint32_t last;
  utf8proc_category_t category;
};
constexpr CategoryChange kCategoryChanges[] = {
    {0x897, 0x897, UTF8PROC_CATEGORY_MN},     {0x1B4E, 0x1B4F, UTF8PROC_CATEGORY_PO},
    {0x1B7F, 0x1B7F, UTF8PROC_CATEGORY_PO},   {0x1C89, 0x1C89, UTF8PROC_CATEGORY_LU},
    {0x1C8A, 0x1C8A, UTF8PROC_CATEGORY_LL},   {0x2427, 0x2429, UTF8PROC_CATEGORY_SO},
    {0x2FFC, 0x2FFF, UTF8PROC_CATEGORY_SO},   {0x31E4, 0x31E5, UTF8PROC_CATEGORY_SO},
    {0x31EF, 0x31EF, UTF8PROC_CATEGORY_SO},   {0xA7CB, 0xA7CC, UTF8PROC_CATEGORY_LU},
    {0xA7CD, 0xA7CD, UTF8PROC_CATEGORY_LL},   {0xA7DA, 0xA7DA, UTF8PROC_CATEGORY_LU},
    {0xA7DB, 0xA7DB, UTF8PROC_CATEGORY_LL},   {0xA7DC, 0xA7DC, UTF8PROC_CATEGORY_LU},
    {0x105C0, 0x105F3, UTF8PROC_CATEGORY_LO}, {0x10D40, 0x10D49, UTF8PROC_CATEGORY_ND},
    {0x10D4A, 0x10D4D, UTF8PROC_CATEGORY_LO}, {0x10D4E, 0x10D4E, UTF8PROC_CATEGORY_LM},
    {0x10D4F, 0x10D4F, UTF8PROC_CATEGORY_LO}, {0x10D50, 0x10D65, UTF8PROC_CATEGORY_LU},
    {0x10D69, 0x10D6D, UTF8PROC_CATEGORY_MN}, {0x10D6E, 0x10D6E, UTF8PROC_CATEGORY_PD},
    {0x10D6F, 0x10D6F, UTF8PROC_CATEGORY_LM}, {0x10D70, 0x10D85, UTF8PROC_CATEGORY_LL},
    {0x10D8E, 0x10D8F, UTF8PROC_CATEGORY_SM}, {0x10EC2, 0x10EC4, UTF8PROC_CATEGORY_LO},
    {0x10EFC, 0x10EFC, UTF8PROC_CATEGORY_MN}, {0x11380, 0x11389, UTF8PROC_CATEGORY_LO},
    {0x1138B, 0x1138B, UTF8PROC_CATEGORY_LO}, {0x1138E, 0x1138E, UTF8PROC_CATEGORY_LO},
    {0x11390, 0x113B5, UTF8PROC_CATEGORY_LO}, {0x113B7, 0x113B7, UTF8PROC_CATEGORY_LO},
    {0x113B8, 0x113BA, UTF8PROC_CATEGORY_MC}, {0x113BB, 0x113C0, UTF8PROC_CATEGORY_MN},
    {0x113C2, 0x113C2, UTF8PROC_CATEGORY_MC}, {0x113C5, 0x113C5, UTF8PROC_CATEGORY_MC},
    {0x113C7, 0x113CA, UTF8PROC_CATEGORY_MC}, {0x113CC, 0x113CD, UTF8PROC_CATEGORY_MC},
    {0x113CE, 0x113CE, UTF8PROC_CATEGORY_MN}, {0x113CF, 0x113CF, UTF8PROC_CATEGORY_MC},
    {0x113D0, 0x113D0, UTF8PROC_CATEGORY_MN}, {0x113D1, 0x113D1, UTF8PROC_CATEGORY_LO},
    {0x113D2, 0x113D2, UTF8PROC_CATEGORY_MN}, {0x113D3, 0x113D3, UTF8PROC_CATEGORY_LO},
    {0x113D4, 0x113D5, UTF8PROC_CATEGORY_PO}, {0x113D7, 0x113D8, UTF8PROC_CATEGORY_PO},
    {0x113E1, 0x113E2, UTF8PROC_CATEGORY_MN}, {0x116D0, 0x116E3, UTF8PROC_CATEGORY_ND},
    {0x1171E, 0x1171E, UTF8PROC_CATEGORY_MC}, {0x11BC0, 0x11BE0, UTF8PROC_CATEGORY_LO},
    {0x11BE1, 0x11BE1, UTF8PROC_CATEGORY_PO}, {0x11BF0, 0x11BF9, UTF8PROC_CATEGORY_ND},
    {0x11F5A, 0x11F5A, UTF8PROC_CATEGORY_MN}, {0x13460, 0x143FA, UTF8PROC_CATEGORY_LO},
    {0x16100, 0x1611D, UTF8PROC_CATEGORY_LO}, {0x1611E, 0x16129, UTF8PROC_CATEGORY_MN},
    {0x1612A, 0x1612C, UTF8PROC_CATEGORY_MC}, {0x1612D, 0x1612F, UTF8PROC_CATEGORY_MN},
    {0x16130, 0x16139, UTF8PROC_CATEGORY_ND}, {0x16D40, 0x16D42, UTF8PROC_CATEGORY_LM},
    {0x16D43, 0x16D6A, UTF8PROC_CATEGORY_LO}, {0x16D6B, 0x16D6C, UTF8PROC_CATEGORY_LM},
    {0x16D6D, 0x16D6F, UTF8PROC_CATEGORY_PO}, {0x16D70, 0x16D79, UTF8PROC_CATEGORY_ND},
    {0x18CFF, 0x18CFF, UTF8PROC_CATEGORY_LO}, {0x1CC00, 0x1CCEF, UTF8PROC_CATEGORY_SO},
    {0x1CCF0, 0x1CCF9, UTF8PROC_CATEGORY_ND}, {0x1CD00, 0x1CEB3, UTF8PROC_CATEGORY_SO},
    {0x1E5D0, 0x1E5ED, UTF8PROC_CATEGORY_LO}, {0x1E5EE, 0x1E5EF, UTF8PROC_CATEGORY_MN},
    {0x1E5F0, 0x1E5F0, UTF8PROC_CATEGORY_LO}, {0x1E5F1, 0x1E5FA, UTF8PROC_CATEGORY_ND},
    {0x1E5FF, 0x1E5FF, UTF8PROC_CATEGORY_PO}, {0x1F8B2, 0x1F8BB, UTF8PROC_CATEGORY_SO},
    {0x1F8C0, 0x1F8C1, UTF8PROC_CATEGORY_SO}, {0x1FA89, 0x1FA89, UTF8PROC_CATEGORY_SO},
    {0x1FA8F, 0x1FA8F, UTF8PROC_CATEGORY_SO}, {0x1FABE, 0x1FABE, UTF8PROC_CATEGORY_SO},
    {0x1FAC6, 0x1FAC6, UTF8PROC_CATEGORY_SO}, {0x1FADC, 0x1FADC, UTF8PROC_CATEGORY_SO},
    {0x1FADF, 0x1FADF, UTF8PROC_CATEGORY_SO}, {0x1FAE9, 0x1FAE9, UTF8PROC_CATEGORY_SO},
    {0x1FBCB, 0x1FBEF, UTF8PROC_CATEGORY_SO}, {0x2EBF0, 0x2EE5D, UTF8PROC_CATEGORY_LO}};

// utf8proc has no scripts: these are the Unicode 16 ranges of those that pre-tokenizers use.
constexpr Range kHan[] = {
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
    {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
    {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
    {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A}, {0x31350, 0x323AF},
};
constexpr Range kHiragana[] = {
    {0x3041, 0x3096},   {0x309D, 0x309F},   {0x1B001, 0x1B11F},
    {0x1B132, 0x1B132}, {0x1B150, 0x1B152}, {0x1F200, 0x1F200},
};
constexpr Range kKatakana[] = {
    {0x30A1, 0x30FA},   {0x30FD, 0x30FF},   {0x31F0, 0x31FF},   {0x32D0, 0x32FE},
    {0x3300, 0x3357},   {0xFF66, 0xFF6F},   {0xFF71, 0xFF9D},   {0x1AFF0, 0x1AFF3},
    {0x1AFF5, 0x1AFFB}, {0x1AFFD, 0x1AFFE}, {0x1B000, 0x1B000}, {0x1B120, 0x1B122},
    {0x1B155, 0x1B155}, {0x1B164, 0x1B167},
};
constexpr Range kHangul[] = {
    {0x1100, 0x11FF}, {0x302E, 0x302F}, {0x3131, 0x318E}, {0x3200, 0x321E}, {0x3260, 0x327E},
    {0xA960, 0xA97C}, {0xAC00, 0xD7A3}, {0xD7B0, 0xD7C6}, {0xD7CB, 0xD7FB}, {0xFFA0, 0xFFBE},
    {0xFFC2, 0xFFC7}, {0xFFCA, 0xFFCF}, {0xFFD2, 0xFFD7}, {0xFFDA, 0xFFDC},
};
constexpr Range kThai[] = {{0x0E01, 0x0E3A}, {0x0E40, 0x0E5B}};
constexpr Range kLao[] = {{0x0E81, 0x0E82}, {0x0E84, 0x0E84}, {0x0E86, 0x0E8A}, {0x0E8C, 0x0EA3},
                          {0x0EA5, 0x0EA5}, {0x0EA7, 0x0EBD}, {0x0EC0, 0x0EC4}, {0x0EC6, 0x0EC6},
                          {0x0EC8, 0x0ECE}, {0x0ED0, 0x0ED9}, {0x0EDC, 0x0EDF}};
constexpr Range kKhmer[] = {{0x1780, 0x17DD}, {0x17E0, 0x17E9}, {0x17F0, 0x17F9}, {0x19E0, 0x19FF}};
constexpr Range kMyanmar[] = {
    {0x1000, 0x109F}, {0xA9E0, 0xA9FE}, {0xAA60, 0xAA7F}, {0x116D0, 0x116E3}};
// The White_Space property.
constexpr Range kSpace[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                            {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                            {0x205F, 0x205F}, {0x3000, 0x3000}};
// Alphabetic beyond letters, letter numbers and marks: circled and squared Latin letters.
constexpr Range kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

template <size_t N>
CodePointSet FromRanges(const Range (&ranges)[N]) {
  CodePointSet set;
  for (const Range& range : ranges) set.AddRange(range.first, range.last);
  return set;
}

}  // namespace

uint32_t PreviousCodePoint(std::string_view text, size_t pos) {
  do {
    --pos;
  } while (pos > 0 && (static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80);
  return NextCodePoint(text, pos);
}

void AppendUtf8(uint32_t cp, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (cp < 0x80) {
    put(cp);
  } else if (cp < 0x800) {
    put(0xC0 | cp >> 6);
    put(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    put(0xE0 | cp >> 12);
    put(0x80 | (cp >> 6 & 0x3F));
    put(0x80 | (cp & 0x3F));
  } else {
    put(0xF0 | cp >> 18);
    put(0x80 | (cp >> 12 & 0x3F));
    put(0x80 | (cp >> 6 & 0x3F));
    put(0x80 | (cp & 0x3F));
  }
}

Utf8Unit NextUtf8Unit(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {.length = 1, .valid = true};
  if (lead < 0xC2 || lead > 0xF4) return {.length = 1};
  const size_t need = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80, high = 0xBF;  // of the second byte: no overlong forms, no surrogates
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < need; ++i) {
    if (i == bytes.size()) return {.length = i, .valid = false, .complete = false};
    if (byte(i) < low || byte(i) > high) return {.length = i};
    low = 0x80;
    high = 0xBF;
  }
  return {.length = need, .valid = true};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(pos));
    if (!unit.valid) return pos;
    pos += unit.length;
  }
  return std::nullopt;
}

void CodePointSet::AddRange(uint32_t first, uint32_t last) {
  for (uint32_t cp = first; cp <= last && cp < kCodePoints;) {
    if ((cp & 63) == 0 && last - cp >= 63) {
      words_[cp >> 6] = ~uint64_t{0};
      cp += 64;
    } else {
      Add(cp++);
    }
  }
}

void CodePointSet::AddSet(const CodePointSet& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

void CodePointSet::Intersect(const CodePointSet& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
}

void CodePointSet::Complement() {
  for (uint64_t& word : words_) word = ~word;
}

bool CodePointSet::Intersects(const CodePointSet& other) const {
  for (size_t i = 0; i < words_.size(); ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

bool CodePointSet::Includes(const CodePointSet& other) const {
  for (size_t i = 0; i < words_.size(); ++i) {
    if ((other.words_[i] & ~words_[i]) != 0) return false;
  }
  return true;
}

bool CodePointSet::IntersectsRange(uint32_t first, uint32_t last) const {
  for (uint32_t cp = first; cp <= last;) {
    if ((cp & 63) == 0 && words_[cp >> 6] == 0) {
      cp += 64;
    } else if (Contains(cp++)) {
      return true;
    }
  }
  return false;
}

CodePointTable::CodePointTable(const CodePointSet& set) : stage_(kCodePoints >> 8) {
  std::map<std::vector<uint64_t>, uint16_t> known;
  const std::vector<uint64_t>& words = set.words();
  for (size_t block = 0; block < stage_.size(); ++block) {
    const auto begin = words.begin() + static_cast<ptrdiff_t>(block * 4);
    const auto [entry, added] = known.emplace(std::vector<uint64_t>(begin, begin + 4),
                                              static_cast<uint16_t>(blocks_.size() / 4));
    if (added) blocks_.insert(blocks_.end(), begin, begin + 4);
    stage_[block] = entry->second;
  }
}

uint8_t UnicodeCategory(uint32_t cp) {
  if (cp >= kCategoryChanges[0].first) {
    const auto change =
        std::partition_point(std::begin(kCategoryChanges), std::end(kCategoryChanges),
                             [&](const CategoryChange& c) { return c.last < cp; });
    if (change != std::end(kCategoryChanges) && change->first <= cp) {
      return static_cast<uint8_t>(change->category);
    }
  }
  return static_cast<uint8_t>(utf8proc_category(static_cast<utf8proc_int32_t>(cp)));
}

CodePointSet UnicodeProperties::ByCategories(uint32_t mask) const {
  if (category_.empty()) {
    category_.resize(kCodePoints);
    for (uint32_t cp = 0; cp < kCodePoints; ++cp) {
      category_[cp] = static_cast<uint8_t>(utf8proc_category(static_cast<utf8proc_int32_t>(cp)));
    }
    for (const CategoryChange& change : kCategoryChanges) {
      for (uint32_t cp = change.first; cp <= change.last; ++cp) {
        category_[cp] = static_cast<uint8_t>(change.category);
      }
    }
  }
  CodePointSet set;
  for (uint32_t cp = 0; cp < kCodePoints; ++cp) {
    if ((mask >> category_[cp] & 1) != 0) set.Add(cp);
  }
  return set;
}

std::optional<CodePointSet> UnicodeProperties::ByName(std::string_view name) const {
  std::string key;
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ' ') continue;
    key.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  for (const NamedMask& category : kCategories) {
    if (category.name == key) return ByCategories(category.mask);
  }
  if (key == "han") return FromRanges(kHan);
  if (key == "hiragana") return FromRanges(kHiragana);
  if (key == "katakana") return FromRanges(kKatakana);
  if (key == "hangul") return FromRanges(kHangul);
  if (key == "thai") return FromRanges(kThai);
  if (key == "lao") return FromRanges(kLao);
  if (key == "khmer") return FromRanges(kKhmer);
  if (key == "myanmar") return FromRanges(kMyanmar);
  if (key == "whitespace" || key == "space") return Space();
  if (key == "word") return Word();
  if (key == "digit") return Digit();
  if (key == "any") {
    CodePointSet all;
    all.Complement();
    return all;
  }
  return std::nullopt;
}

CodePointSet UnicodeProperties::Space() const {
  return FromRanges(kSpace);
}

CodePointSet UnicodeProperties::Word() const {
  CodePointSet set = ByCategories(kLetter | kMark | Bit(UTF8PROC_CATEGORY_ND) |
                                  Bit(UTF8PROC_CATEGORY_NL) | Bit(UTF8PROC_CATEGORY_PC));
  set.AddSet(FromRanges(kAlphabeticSymbols));
  for (const uint32_t cp : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) set.Add(cp);  // Oniguruma's own
  return set;
}

CodePointSet UnicodeProperties::Digit() const {
  return ByCategories(Bit(UTF8PROC_CATEGORY_ND));
}

}  // namespace colibri
