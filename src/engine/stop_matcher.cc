#include "engine/stop_matcher.h"

#include <algorithm>

#include "base/check.h"

namespace colibri {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    COLIBRI_CHECK(!stop.empty());
    std::vector<uint32_t> fallback(stop.size());
    uint32_t length = 0;
    for (size_t i = 1; i < stop.size(); ++i) {
      while (length > 0 && stop[i] != stop[length]) length = fallback[length - 1];
      if (stop[i] == stop[length]) ++length;
      fallback[i] = length;
    }
    automata_.push_back({std::move(stop), std::move(fallback)});
  }
}

int32_t StopMatcher::Push(std::string_view text, std::string& out) {
  if (automata_.empty()) {
    out += text;
    return -1;
  }
  const size_t before = held_.size();
  held_ += text;
  size_t longest = 0;
  for (size_t at = before; at < held_.size(); ++at) {
    const char byte = held_[at];
    longest = 0;
    int32_t found = -1;
    for (size_t i = 0; i < automata_.size(); ++i) {
      Automaton& a = automata_[i];
      while (a.matched > 0 && a.stop[a.matched] != byte) a.matched = a.fallback[a.matched - 1];
      if (a.stop[a.matched] == byte) ++a.matched;
      longest = std::max(longest, a.matched);
      if (a.matched == a.stop.size() &&
          (found < 0 || a.stop.size() > automata_[found].stop.size())) {
        found = static_cast<int32_t>(i);
      }
    }
    if (found >= 0) {
      out.append(held_, 0, at + 1 - automata_[found].stop.size());
      held_.clear();
      return found;
    }
  }
  if (text.empty()) return -1;
  out.append(held_, 0, held_.size() - longest);
  held_.erase(0, held_.size() - longest);
  return -1;
}

void StopMatcher::Flush(std::string& out) {
  out += held_;
  held_.clear();
  for (Automaton& a : automata_) a.matched = 0;
}

}  // namespace colibri
