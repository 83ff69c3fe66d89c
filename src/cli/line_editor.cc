#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <system_error>

#include "base/strings.h"
#include "cli/console.h"

namespace colibri::cli {
namespace {

constexpr int kHistoryLines = 1000;

class TerminalReader : public LineReader {
 public:
  TerminalReader(std::string prompt, std::string history_path, InterruptScope& interrupt)
      : prompt_(std::move(prompt)),
        history_path_(std::move(history_path)),
        interrupt_(interrupt),
        history_(history_init()),
        editor_(el_init("colibri", stdin, stderr, stderr)) {
    // Characters are UTF-8 here, whatever the terminal's locale says.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    if (!history_path_.empty()) history(history_, &event, H_LOAD, history_path_.c_str());
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &TerminalReader::Prompt);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    // Ctrl-C is ours: libedit's own handler would send it to the whole process group once more.
    el_set(editor_, EL_SIGNAL, 0);
    el_set(editor_, EL_GETCFN, &TerminalReader::ReadCharacter);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }

  ~TerminalReader() override {
    HistEvent event;
    if (!history_path_.empty()) history(history_, &event, H_SAVE, history_path_.c_str());
    el_end(editor_);
    history_end(history_);
  }

  Result<LineOutcome> Read(std::string& line) override {
    int n = 0;
    read_error_ = 0;
    // Before the prompt shows: a key that answers it at once must meet the editor, not the
    // terminal's own line.
    el_set(editor_, EL_PREP_TERM, 1);
    const char* text = el_gets(editor_, &n);
    if (interrupt_.interrupted()) {
      interrupt_.Clear();
      el_reset(editor_);
      std::fputs("^C\n", stderr);
      return LineOutcome::kInterrupted;
    }
    if (read_error_ != 0) return IoError(StrCat("terminal: ", std::strerror(read_error_)));
    if (text == nullptr || n <= 0) {
      std::fputs("\n", stderr);
      return LineOutcome::kEnd;
    }
    line.assign(text, static_cast<size_t>(n));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return LineOutcome::kLine;
  }

 private:
  static TerminalReader* Self(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<TerminalReader*>(self);
  }

  static char* Prompt(EditLine* editor) { return Self(editor)->prompt_.data(); }

  // libedit's own reading tries again after a signal; this one gives up, so that Ctrl-C ends a
  // line.
  static int ReadCharacter(EditLine* editor, wchar_t* out) {
    TerminalReader* self = Self(editor);
    std::mbstate_t state = {};
    while (true) {
      char byte = 0;
      if (!self->interrupt_.WaitForInput(STDIN_FILENO)) return -1;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n == 0) return 0;
      if (n < 0) {
        if (errno == EINTR && !self->interrupt_.interrupted()) continue;
        if (errno != EINTR) self->read_error_ = errno;
        return -1;
      }
      const size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used == static_cast<size_t>(-2)) continue;  // more bytes belong to it
      if (used == static_cast<size_t>(-1)) {
        state = {};
        continue;  // not UTF-8
      }
      return 1;
    }
  }

  std::string prompt_;
  std::string history_path_;
  InterruptScope& interrupt_;
  History* history_;
  EditLine* editor_;
  int read_error_ = 0;
};

class PipeReader : public LineReader {
 public:
  explicit PipeReader(InterruptScope& interrupt) : interrupt_(interrupt) {}

  Result<LineOutcome> Read(std::string& line) override {
    while (true) {
      const size_t end = buffer_.find('\n', searched_);
      if (end != std::string::npos || (at_end_ && begin_ < buffer_.size())) {
        const size_t stop = std::min(end, buffer_.size());
        line.assign(buffer_, begin_, stop - begin_);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        begin_ = std::min(stop + 1, buffer_.size());
        searched_ = begin_;
        return LineOutcome::kLine;
      }
      if (at_end_) return LineOutcome::kEnd;
      buffer_.erase(0, begin_);
      begin_ = 0;
      searched_ = buffer_.size();
      if (!interrupt_.WaitForInput(STDIN_FILENO)) return LineOutcome::kInterrupted;
      const ssize_t n = ::read(STDIN_FILENO, block_.data(), block_.size());
      if (n < 0) {
        if (errno == EINTR && interrupt_.interrupted()) return LineOutcome::kInterrupted;
        if (errno == EINTR) continue;
        return IoError(StrCat("standard input: ", std::strerror(errno)));
      }
      if (buffer_.size() > kMaxInputBytes) {
        return ResourceExhausted(
            StrCat("a line of standard input is longer than ", FormatBytes(kMaxInputBytes)));
      }
      at_end_ = n == 0;
      buffer_.append(block_.data(), static_cast<size_t>(n));
    }
  }

 private:
  InterruptScope& interrupt_;
  std::string buffer_;
  std::array<char, 1 << 16> block_;
  size_t begin_ = 0;     // of the next line in buffer_
  size_t searched_ = 0;  // no line ends before this
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<LineReader> MakeTerminalReader(std::string prompt, std::string history_path,
                                               InterruptScope& interrupt) {
  return std::make_unique<TerminalReader>(std::move(prompt), std::move(history_path), interrupt);
}

std::unique_ptr<LineReader> MakePipeReader(InterruptScope& interrupt) {
  return std::make_unique<PipeReader>(interrupt);
}

std::string HistoryPath() {
  namespace fs = std::filesystem;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  fs::path state = variable("XDG_STATE_HOME");
  if (!state.is_absolute()) {
    const std::string home = variable("HOME");
    if (home.empty()) return {};
    state = fs::path(home) / ".local" / "state";
  }
  std::error_code error;
  fs::create_directories(state / "colibri", error);
  return error ? std::string() : (state / "colibri" / "history").string();
}

}  // namespace colibri::cli
