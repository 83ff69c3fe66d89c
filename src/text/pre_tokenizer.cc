#include "text/pre_tokenizer.h"

namespace colibri {
namespace {

using Matches = std::vector<std::pair<size_t, size_t>>;

// Rewrites pieces.ends by cutting every piece at the matches that `find` puts into scratch.matches,
// as offsets in the piece. A piece keeps its text except where matches are removed.
template <typename Find>
void SplitPieces(PieceList& pieces, PreTokenizerScratch& scratch, SplitBehavior behavior,
                 bool invert, Find&& find) {
  std::vector<size_t>& ends = scratch.ends;
  ends.clear();
  std::string kept;  // the text without what was removed
  const bool removes = behavior == SplitBehavior::kRemoved;
  size_t begin = 0;
  for (const size_t end : pieces.ends) {
    const std::string_view piece = std::string_view(pieces.text).substr(begin, end - begin);
    scratch.matches.clear();
    find(piece, scratch.matches);
    const size_t first_end = ends.size();
    size_t done = 0;
    bool previous_matched = false;
    const auto emit = [&](size_t to, bool matched) {
      if (to == done) return;
      matched = matched != invert;
      const bool has_previous = ends.size() > first_end;
      switch (behavior) {
        case SplitBehavior::kRemoved:
          if (!matched) {
            kept.append(piece, done, to - done);
            ends.push_back(kept.size());
          }
          break;
        case SplitBehavior::kIsolated:
          ends.push_back(begin + to);
          break;
        case SplitBehavior::kMergedWithPrevious:
          // A match joins the text before it, but not another match.
          if (matched && !previous_matched && has_previous) {
            ends.back() = begin + to;
          } else {
            ends.push_back(begin + to);
          }
          break;
        case SplitBehavior::kMergedWithNext:
          // Text joins the match before it; a match opens a piece.
          if (!matched && previous_matched && has_previous) {
            ends.back() = begin + to;
          } else {
            ends.push_back(begin + to);
          }
          break;
        case SplitBehavior::kContiguous:
          if (has_previous && matched == previous_matched) {
            ends.back() = begin + to;
          } else {
            ends.push_back(begin + to);
          }
          break;
      }
      previous_matched = matched;
      done = to;
    };
    for (const auto& [match_begin, match_end] : scratch.matches) {
      emit(match_begin, false);
      emit(match_end, true);
    }
    emit(piece.size(), false);
    begin = end;
  }
  if (removes) pieces.text = std::move(kept);
  std::swap(pieces.ends, ends);
}

class SplitRegexStep : public PreTokenizerStep {
 public:
  SplitRegexStep(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void Apply(PieceList& pieces, PreTokenizerScratch& scratch) const override {
    if (behavior_ == SplitBehavior::kIsolated) {  // by far the most used, and its own inverse
      Isolate(pieces, scratch);
      return;
    }
    SplitPieces(pieces, scratch, behavior_, invert_, [&](std::string_view piece, Matches& out) {
      pattern_.ForEachMatch(piece, scratch.regex,
                            [&](size_t begin, size_t end) { out.emplace_back(begin, end); });
    });
  }

 private:
  void Isolate(PieceList& pieces, PreTokenizerScratch& scratch) const {
    std::vector<size_t>& ends = scratch.ends;
    ends.clear();
    size_t base = 0;
    for (const size_t piece_end : pieces.ends) {
      size_t done = base;
      pattern_.ForEachMatch(std::string_view(pieces.text).substr(base, piece_end - base),
                            scratch.regex, [&](size_t begin, size_t end) {
                              if (base + begin > done) ends.push_back(base + begin);
                              done = base + end;
                              ends.push_back(done);
                            });
      if (done < piece_end) ends.push_back(piece_end);
      base = piece_end;
    }
    std::swap(pieces.ends, ends);
  }

  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class SplitLiteralStep : public PreTokenizerStep {
 public:
  SplitLiteralStep(std::string literal, SplitBehavior behavior, bool invert)
      : literal_(std::move(literal)), behavior_(behavior), invert_(invert) {}

  void Apply(PieceList& pieces, PreTokenizerScratch& scratch) const override {
    SplitPieces(pieces, scratch, behavior_, invert_, [&](std::string_view piece, Matches& out) {
      for (size_t at = piece.find(literal_); at != std::string_view::npos;
           at = piece.find(literal_, at + literal_.size())) {
        out.emplace_back(at, at + literal_.size());
      }
    });
  }

 private:
  std::string literal_;
  SplitBehavior behavior_;
  bool invert_;
};

// Calls rewrite(piece, index, new text) for each piece, which appends its new text.
template <typename Rewrite>
void RewritePieces(PieceList& pieces, Rewrite&& rewrite) {
  std::string text;
  size_t begin = 0;
  for (size_t i = 0; i < pieces.ends.size(); ++i) {
    const size_t end = pieces.ends[i];
    rewrite(std::string_view(pieces.text).substr(begin, end - begin), i, text);
    begin = end;
    pieces.ends[i] = text.size();
  }
  pieces.text = std::move(text);
}

class PrefixSpaceStep : public PreTokenizerStep {
 public:
  void Apply(PieceList& pieces, PreTokenizerScratch&) const override {
    RewritePieces(pieces, [](std::string_view piece, size_t, std::string& text) {
      if (!piece.starts_with(' ')) text += ' ';
      text += piece;
    });
  }
};

class MetaspaceStep : public PreTokenizerStep {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme) {
    if (split) {
      split_ = MakeSplitStep(replacement_, SplitBehavior::kMergedWithNext, false);
    }
  }

  void Apply(PieceList& pieces, PreTokenizerScratch& scratch) const override {
    RewritePieces(pieces, [&](std::string_view piece, size_t index, std::string& text) {
      const bool wanted = scheme_ == PrependScheme::kAlways ||
                          (scheme_ == PrependScheme::kFirst && index == 0 && pieces.starts_input);
      if (wanted && !piece.starts_with(' ') && !piece.starts_with(replacement_)) {
        text += replacement_;
      }
      for (const char c : piece) {
        if (c == ' ') {
          text += replacement_;
        } else {
          text += c;
        }
      }
    });
    if (split_) split_->Apply(pieces, scratch);
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  std::unique_ptr<PreTokenizerStep> split_;
};

class CutBeforeStep : public PreTokenizerStep {
 public:
  explicit CutBeforeStep(std::string mark) : mark_(std::move(mark)) {}

  void Apply(PieceList& pieces, PreTokenizerScratch& scratch) const override {
    std::vector<size_t>& ends = scratch.ends;
    ends.clear();
    size_t begin = 0;
    for (const size_t end : pieces.ends) {
      const std::string_view piece = std::string_view(pieces.text).substr(0, end);
      size_t after_mark = std::string_view::npos;
      for (size_t at = piece.find(mark_, begin); at != std::string_view::npos;
           at = piece.find(mark_, after_mark)) {
        if (at != begin && at != after_mark) ends.push_back(at);
        after_mark = at + mark_.size();
      }
      ends.push_back(end);
      begin = end;
    }
    std::swap(pieces.ends, ends);
  }

 private:
  std::string mark_;
};

}  // namespace

std::unique_ptr<PreTokenizerStep> MakeSplitStep(Regex pattern, SplitBehavior behavior,
                                                bool invert) {
  return std::make_unique<SplitRegexStep>(std::move(pattern), behavior, invert);
}
std::unique_ptr<PreTokenizerStep> MakeSplitStep(std::string literal, SplitBehavior behavior,
                                                bool invert) {
  return std::make_unique<SplitLiteralStep>(std::move(literal), behavior, invert);
}
std::unique_ptr<PreTokenizerStep> MakePrefixSpaceStep() {
  return std::make_unique<PrefixSpaceStep>();
}
std::unique_ptr<PreTokenizerStep> MakeMetaspaceStep(std::string replacement, PrependScheme scheme,
                                                    bool split) {
  return std::make_unique<MetaspaceStep>(std::move(replacement), scheme, split);
}
std::unique_ptr<PreTokenizerStep> MakeCutBeforeStep(std::string mark) {
  return std::make_unique<CutBeforeStep>(std::move(mark));
}

}  // namespace colibri
