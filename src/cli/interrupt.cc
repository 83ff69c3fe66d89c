#include "cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/check.h"
#include "cli/exit_code.h"

namespace colibri::cli {
namespace {

// A signal handler has no argument of its own: this is the one place where globals cannot be
// avoided.
std::atomic<bool> g_interrupted{false};
// An eventfd that can be read while the flag is set, or -1: a read that starts just after the
// signal would wait for the next key.
std::atomic<int> g_wake{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may use them");

void OnInterrupt(int) {
  if (g_interrupted.exchange(true)) ::_exit(static_cast<int>(ExitCode::kInterrupted));
  const int saved = errno;
  const uint64_t one = 1;
  const ssize_t written = ::write(g_wake, &one, sizeof(one));
  static_cast<void>(written);  // it cannot fail while it is open, and without it the flag is set
  errno = saved;
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
  g_wake = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  SetHandler(OnInterrupt);
}

InterruptScope::~InterruptScope() {
  SetHandler(SIG_DFL);
  if (const int wake = g_wake.exchange(-1); wake >= 0) ::close(wake);
}

const std::atomic<bool>* InterruptScope::flag() const {
  return &g_interrupted;
}

bool InterruptScope::interrupted() const {
  return g_interrupted;
}

void InterruptScope::Clear() {
  uint64_t count = 0;
  const ssize_t n = ::read(g_wake, &count, sizeof(count));
  static_cast<void>(n);
  g_interrupted = false;
}

bool InterruptScope::WaitForInput(int fd) const {
  std::array<pollfd, 2> waits = {{{fd, POLLIN, 0}, {g_wake, POLLIN, 0}}};
  while (!g_interrupted) {
    const int n = ::poll(waits.data(), waits.size(), -1);
    if (n < 0 && errno == EINTR) continue;
    // What poll cannot wait for, read reports.
    if (n < 0 || waits[0].revents != 0) return !g_interrupted;
  }
  return false;
}

}  // namespace colibri::cli
