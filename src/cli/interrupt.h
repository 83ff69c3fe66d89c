// cli/interrupt.h - Ctrl-C as a flag that the engine looks at.
#pragma once

#include <atomic>

namespace colibri::cli {

// While it lives, SIGINT sets a flag instead of ending the process; a second one while the flag is
// still set ends it at once. One scope at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const std::atomic<bool>* flag() const;
  bool interrupted() const;
  void Clear();
  // Waits until `fd` can be read or has ended: true; false as soon as the flag is set, also by a
  // signal that came before the wait or to another thread.
  bool WaitForInput(int fd) const;
};

}  // namespace colibri::cli
