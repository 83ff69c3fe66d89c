// base/check.h - for bugs of ours: always on, names the place, ends the process.
#pragma once

namespace colibri {

// Writes "file:line: check failed: expression" to standard error and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);

}  // namespace colibri

// For what cannot be false whatever the input is. Input and environment get a Status instead.
#define COLIBRI_CHECK(expression)                     \
  (__builtin_expect(static_cast<bool>(expression), 1) \
       ? (void)0                                      \
       : ::colibri::CheckFailed(__FILE__, __LINE__, #expression))
