#include "text/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "text/normalizer.h"
#include "text/unicode.h"

namespace colibri {
namespace {

// \w as the Rust regular expressions of Hugging Face tokenizers see it.
bool IsWord(uint32_t cp) {
  if ((cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
      (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189) || cp == 0x200C ||
      cp == 0x200D) {
    return true;
  }
  switch (UnicodeCategory(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

size_t SpaceBefore(std::string_view text, size_t pos, size_t limit) {
  while (pos > limit && IsSpace(PreviousCodePoint(text, pos))) {
    do {
      --pos;
    } while ((static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80);
  }
  return pos;
}

size_t SpaceBehind(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    size_t after = pos;
    if (!IsSpace(NextCodePoint(text, after))) break;
    pos = after;
  }
  return pos;
}

}  // namespace

void AddedTokenMatcher::Add(AddedToken token) {
  uint32_t node = 0;
  for (const char c : token.content) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = Child(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.next_sibling = node == 0 ? 0 : nodes_[node].first_child, .byte = byte});
      if (node == 0) {
        roots_[byte] = child;
      } else {
        nodes_[node].first_child = child;
      }
    }
    node = child;
  }
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(std::move(token));
}

uint32_t AddedTokenMatcher::Child(uint32_t node, uint8_t byte) const {
  if (node == 0) return roots_[byte];
  uint32_t child = nodes_[node].first_child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
  return child;
}

int32_t AddedTokenMatcher::LongestAt(std::string_view text, size_t pos) const {
  int32_t longest = -1;
  uint32_t node = 0;
  while (pos < text.size()) {
    node = Child(node, static_cast<uint8_t>(text[pos++]));
    if (node == 0) break;
    if (nodes_[node].token >= 0) longest = nodes_[node].token;
  }
  return longest;
}

void AddedTokenMatcher::Split(std::string_view text, bool special, std::vector<Span>& out) const {
  size_t done = 0;  // spans cover the text before this
  for (size_t pos = 0; pos < text.size();) {
    if (roots_[static_cast<uint8_t>(text[pos])] == 0) {
      ++pos;
      continue;
    }
    const int32_t index = LongestAt(text, pos);
    if (index < 0) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    size_t begin = pos;
    size_t end = pos + token.content.size();
    pos = end;  // a match that is turned down below is passed over as a whole
    if (token.special && !special) continue;
    if (token.single_word) {
      size_t after = end;
      const bool left = begin > 0 && IsWord(PreviousCodePoint(text, begin));
      const bool right = end < text.size() && IsWord(NextCodePoint(text, after));
      if (left || right) continue;
    }
    if (token.lstrip) begin = SpaceBefore(text, begin, done);
    if (token.rstrip) end = SpaceBehind(text, end);
    begin = std::max(begin, done);
    end = std::max(end, begin);
    if (begin > done) out.push_back({done, begin, -1});
    out.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), -1});
}

}  // namespace colibri
