#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/exit_code.h"

namespace colibri::cli {
namespace {

// A signal handler has no argument of its own: this is the one place where a global cannot be
// avoided.
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

void OnInterrupt(int) {
  if (g_interrupted.exchange(true)) ::_exit(static_cast<int>(ExitCode::kInterrupted));
}

void SetHandler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  // No SA_RESTART: a read that waits for the user returns, so that the command can end.
  ::sigemptyset(&action.sa_mask);
  COLIBRI_CHECK(::sigaction(SIGINT, &action, nullptr) == 0);
}

}  // namespace

InterruptScope::InterruptScope() {
  g_interrupted = false;
  SetHandler(OnInterrupt);
}

InterruptScope::~InterruptScope() {
  SetHandler(SIG_DFL);
}

const std::atomic<bool>* InterruptScope::flag() const {
  return &g_interrupted;
}

bool InterruptScope::interrupted() const {
  return g_interrupted;
}

void InterruptScope::Clear() {
  g_interrupted = false;
}

}  // namespace colibri::cli
