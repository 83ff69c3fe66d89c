// engine/stop_matcher.h - finds stop strings in text that comes in pieces, and never lets a part of
// one out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// Follows each stop string with its Knuth-Morris-Pratt automaton: constant memory and amortised
// constant time a byte and string, whatever the text.
class StopMatcher {
 public:
  // No string is empty.
  explicit StopMatcher(std::vector<std::string> stops);

  // Takes more text and appends to `out` what can't be part of a stop string any more. Returns the
  // index of the stop string that ended the text, or -1; of several that end with the same byte the
  // longest counts. Text from its start on is dropped, and nothing must be pushed afterwards.
  int32_t Push(std::string_view text, std::string& out);
  // Appends what was held back: the text is over.
  void Flush(std::string& out);

  const std::string& stop(int32_t index) const { return automata_[index].stop; }

 private:
  struct Automaton {
    std::string stop;
    std::vector<uint32_t> fallback;  // [stop.size()] length of the longest proper prefix that is a
                                     // suffix of the first i + 1 bytes
    size_t matched = 0;              // bytes of stop that the text ends with
  };
  std::vector<Automaton> automata_;
  std::string held_;  // the end of the text: as long as the longest `matched`
};

}  // namespace colibri
