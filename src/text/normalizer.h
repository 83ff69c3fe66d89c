// text/normalizer.h - what happens to text before it is split: the "normalizer" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace colibri {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Unicode normalisation in time linear in the text (up to the sorting of a run of marks by class).
std::string NormalizeUnicode(std::string_view text, UnicodeForm form);

// One step. Immutable; safe to use from many threads.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Changes `text`, which is valid UTF-8 and stays so.
  virtual void Apply(std::string& text) const = 0;
};

// The steps in order. No step at all is the identity.
class Normalizer {
 public:
  void Add(std::unique_ptr<NormalizerStep> step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  void Apply(std::string& text) const {
    for (const auto& step : steps_) step->Apply(text);
  }

 private:
  std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

std::unique_ptr<NormalizerStep> MakeUnicodeStep(UnicodeForm form);
std::unique_ptr<NormalizerStep> MakeLowercaseStep();
std::unique_ptr<NormalizerStep> MakePrependStep(std::string prefix);
std::unique_ptr<NormalizerStep> MakeReplaceStep(std::string from, std::string to);
std::unique_ptr<NormalizerStep> MakeReplaceStep(Regex pattern, std::string to);
std::unique_ptr<NormalizerStep> MakeStripStep(bool left, bool right);
std::unique_ptr<NormalizerStep> MakeStripAccentsStep();
std::unique_ptr<NormalizerStep> MakeByteLevelStep();

// Replaces every occurrence of `from` (not empty), from left to right.
void ReplaceAll(std::string& text, std::string_view from, std::string_view to);

// The White_Space property, for one code point.
bool IsSpace(uint32_t cp);

}  // namespace colibri
