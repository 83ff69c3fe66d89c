// text/added_tokens.h - tokens that are found in the text before it is split into pieces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// An entry of "added_tokens" with the semantics of Hugging Face tokenizers.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only between characters that are not of a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // is looked for in the normalized text
  bool special = false;
};

// Finds tokens in text: the leftmost, and of those that start together the longest. Immutable after
// the last Add; safe to use from many threads.
class AddedTokenMatcher {
 public:
  // `token.content` (not empty) is what is looked for.
  void Add(AddedToken token);
  bool empty() const { return tokens_.empty(); }

  struct Span {
    size_t begin;
    size_t end;
    int32_t id;  // -1 for text between tokens
  };
  // Appends the spans that cover `text` (valid UTF-8), empty text between tokens left out. Without
  // `special`, special tokens stay text.
  void Split(std::string_view text, bool special, std::vector<Span>& out) const;

 private:
  struct Node {
    uint32_t first_child = 0;  // 0: none
    uint32_t next_sibling = 0;
    int32_t token = -1;  // index into tokens_
    uint8_t byte = 0;
  };
  uint32_t Child(uint32_t node, uint8_t byte) const;
  // The longest token that starts at `pos`, or -1.
  int32_t LongestAt(std::string_view text, size_t pos) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<uint32_t, 256> roots_{};  // the node of a first byte, 0: none
};

}  // namespace colibri
