// text/pre_tokenizer.h - cuts normalized text into the pieces that the model encodes one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/regex.h"

namespace colibri {

// A text and where its pieces end, in increasing order; the last end is the text's size. No piece
// is empty.
struct PieceList {
  std::string text;
  std::vector<size_t> ends;
  bool starts_input = false;  // the text stands at the very start of what is encoded

  void Reset(bool at_input_start) {
    starts_input = at_input_start;
    ends.clear();
    if (!text.empty()) ends.push_back(text.size());
  }
};

struct PreTokenizerScratch {
  RegexScratch regex;
  std::vector<size_t> ends;
  std::vector<std::pair<size_t, size_t>> matches;
};

// One step: cuts each piece further, or changes its text. Immutable; safe to use from many threads
// with a scratch for each.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual void Apply(PieceList& pieces, PreTokenizerScratch& scratch) const = 0;
};

// What becomes of the matches of a pattern that cuts text.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

enum class PrependScheme { kAlways, kFirst, kNever };

std::unique_ptr<PreTokenizerStep> MakeSplitStep(Regex pattern, SplitBehavior behavior, bool invert);
std::unique_ptr<PreTokenizerStep> MakeSplitStep(std::string literal, SplitBehavior behavior,
                                                bool invert);
// Puts a space before every piece that starts without one.
std::unique_ptr<PreTokenizerStep> MakePrefixSpaceStep();
std::unique_ptr<PreTokenizerStep> MakeMetaspaceStep(std::string replacement, PrependScheme scheme,
                                                    bool split);
// Cuts before every `mark` that follows something else.
std::unique_ptr<PreTokenizerStep> MakeCutBeforeStep(std::string mark);

// The pattern of GPT-2, which the ByteLevel pre-tokenizer uses by itself.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace colibri
