// base/log.h - what the library has to say beside its results; it never prints by itself.
#pragma once

#include <functional>
#include <string_view>

namespace colibri {

enum class LogLevel { kDebug, kInfo, kWarning };

// Receives one line without its newline. Called from the thread that loads or steps; must not call
// back into the library.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Hands lines to the sink of whoever owns it; an empty one drops them.
class Log {
 public:
  Log() = default;
  explicit Log(LogSink sink) : sink_(std::move(sink)) {}
  void Warning(std::string_view line) const { Write(LogLevel::kWarning, line); }
  void Info(std::string_view line) const { Write(LogLevel::kInfo, line); }

 private:
  void Write(LogLevel level, std::string_view line) const {
    if (sink_) sink_(level, line);
  }
  LogSink sink_;
};

}  // namespace colibri
