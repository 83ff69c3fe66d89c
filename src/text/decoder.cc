#include "text/decoder.h"

#include <optional>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace colibri {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The end of a chain: the text itself.
class Sink : public DecoderStream {
 public:
  void Push(std::string_view token, std::string& out) override { out += token; }
  void Finish(std::string&) override {}
};

class JoinWithSpaces : public DecoderStream {
 public:
  void Push(std::string_view token, std::string& out) override {
    if (!first_) out += ' ';
    first_ = false;
    out += token;
  }
  void Finish(std::string&) override {}

 private:
  bool first_ = true;
};

// A stream whose output goes to the next one.
class ChainedStream : public DecoderStream {
 public:
  explicit ChainedStream(std::unique_ptr<DecoderStream> next) : next_(std::move(next)) {}

 protected:
  DecoderStream& next() { return *next_; }

 private:
  std::unique_ptr<DecoderStream> next_;
};

class ByteLevelStream : public ChainedStream {
 public:
  using ChainedStream::ChainedStream;

  void Push(std::string_view token, std::string& out) override {
    if (const std::optional<std::string> bytes = FromByteLevel(token)) {
      held_ += *bytes;
    } else {
      held_ += token;
    }
    Emit(false, out);
  }

  void Finish(std::string& out) override {
    Emit(true, out);
    next().Finish(out);
  }

 private:
  // Passes on whole characters; what may yet become one stays, at most three bytes.
  void Emit(bool at_end, std::string& out) {
    std::string text;
    size_t pos = 0;
    while (pos < held_.size()) {
      const Utf8Unit unit = NextUtf8Unit(std::string_view(held_).substr(pos));
      if (!unit.complete && !at_end) break;
      if (unit.valid) {
        text.append(held_, pos, unit.length);
      } else {
        text += kReplacement;
      }
      pos += unit.length;
    }
    held_.erase(0, pos);
    if (!text.empty()) next().Push(text, out);
  }

  std::string held_;
};

class ByteFallbackStream : public ChainedStream {
 public:
  using ChainedStream::ChainedStream;

  void Push(std::string_view token, std::string& out) override {
    if (const std::optional<uint8_t> byte = ByteOf(token)) {
      run_.push_back(static_cast<char>(*byte));
      return;
    }
    EndRun(out);
    next().Push(token, out);
  }

  void Finish(std::string& out) override {
    EndRun(out);
    next().Finish(out);
  }

 private:
  static int HexDigit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }
  static std::optional<uint8_t> ByteOf(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    const int low = HexDigit(token[4]);
    if (low < 0) return std::nullopt;
    if (token[3] == '+') return static_cast<uint8_t>(low);  // a sign parses as in Rust
    const int high = HexDigit(token[3]);
    if (high < 0) return std::nullopt;
    return static_cast<uint8_t>(high * 16 + low);
  }

  // One bad byte spoils its whole run, so a run can't be passed on before it ends.
  void EndRun(std::string& out) {
    if (run_.empty()) return;
    if (!FindInvalidUtf8(run_)) {
      next().Push(run_, out);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) next().Push(kReplacement, out);
    }
    run_.clear();
  }

  std::string run_;
};

class ReplaceStream : public ChainedStream {
 public:
  ReplaceStream(std::unique_ptr<DecoderStream> next, const std::string& from, const std::string& to)
      : ChainedStream(std::move(next)), from_(from), to_(to) {}

  void Push(std::string_view token, std::string& out) override {
    std::string text(token);
    ReplaceAll(text, from_, to_);
    next().Push(text, out);
  }
  void Finish(std::string& out) override { next().Finish(out); }

 private:
  const std::string& from_;
  const std::string& to_;
};

// Replacement in joined text: an occurrence may begin in one token and end in another.
class ReplaceJoinedStream : public ChainedStream {
 public:
  ReplaceJoinedStream(std::unique_ptr<DecoderStream> next, const std::string& from,
                      const std::string& to)
      : ChainedStream(std::move(next)), from_(from), to_(to) {}

  void Push(std::string_view token, std::string& out) override {
    held_ += token;
    std::string text;
    size_t done = 0;
    for (size_t at = held_.find(from_); at != std::string::npos; at = held_.find(from_, done)) {
      text.append(held_, done, at - done);
      text += to_;
      done = at + from_.size();
    }
    size_t keep = std::min(held_.size() - done, from_.size() - 1);
    while (keep > 0 && !std::string_view(from_).starts_with(
                           std::string_view(held_).substr(held_.size() - keep))) {
      --keep;
    }
    text.append(held_, done, held_.size() - keep - done);
    held_.erase(0, held_.size() - keep);
    if (!text.empty()) next().Push(text, out);
  }

  void Finish(std::string& out) override {
    if (!held_.empty()) next().Push(held_, out);
    next().Finish(out);
  }

 private:
  const std::string& from_;
  const std::string& to_;
  std::string held_;
};

class StripStream : public ChainedStream {
 public:
  StripStream(std::unique_ptr<DecoderStream> next, const std::string& content, size_t start,
              size_t stop)
      : ChainedStream(std::move(next)), content_(content), start_(start), stop_(stop) {}

  void Push(std::string_view token, std::string& out) override {
    for (size_t i = 0; i < start_ && token.starts_with(content_); ++i) {
      token.remove_prefix(content_.size());
    }
    for (size_t i = 0; i < stop_ && token.ends_with(content_); ++i) {
      token.remove_suffix(content_.size());
    }
    next().Push(token, out);
  }
  void Finish(std::string& out) override { next().Finish(out); }

 private:
  const std::string& content_;
  size_t start_, stop_;
};

class StripJoinedStream : public ChainedStream {
 public:
  StripJoinedStream(std::unique_ptr<DecoderStream> next, const std::string& content, size_t start,
                    size_t stop)
      : ChainedStream(std::move(next)), content_(content), start_(start), stop_(stop) {}

  // Content is one character and tokens are whole characters, so nothing straddles two pushes.
  void Push(std::string_view token, std::string& out) override {
    while (start_ > 0 && !token.empty()) {
      if (token.starts_with(content_)) {
        token.remove_prefix(content_.size());
        --start_;
      } else {
        start_ = 0;
      }
    }
    held_ += token;
    size_t keep = 0;
    for (size_t i = 0; i < stop_; ++i) {
      const std::string_view rest = std::string_view(held_).substr(0, held_.size() - keep);
      if (!rest.ends_with(content_)) break;
      keep += content_.size();
    }
    if (held_.size() > keep) {
      next().Push(std::string_view(held_).substr(0, held_.size() - keep), out);
      held_.erase(0, held_.size() - keep);
    }
  }
  void Finish(std::string& out) override { next().Finish(out); }

 private:
  const std::string& content_;
  size_t start_, stop_;
  std::string held_;  // trailing content that the end of the text would take away
};

class MetaspaceStream : public ChainedStream {
 public:
  MetaspaceStream(std::unique_ptr<DecoderStream> next, const std::string& replacement,
                  bool strip_first)
      : ChainedStream(std::move(next)), replacement_(replacement), strip_first_(strip_first) {}

  void Push(std::string_view token, std::string& out) override {
    std::string text(token);
    ReplaceAll(text, replacement_, first_ && strip_first_ ? "" : " ");
    first_ = false;
    next().Push(text, out);
  }
  void Finish(std::string& out) override { next().Finish(out); }

 private:
  const std::string& replacement_;
  bool strip_first_;
  bool first_ = true;
};

class ByteLevelStage : public DecoderStage {
 public:
  std::unique_ptr<DecoderStream> Start(std::unique_ptr<DecoderStream> next) const override {
    return std::make_unique<ByteLevelStream>(std::move(next));
  }
};

class ByteFallbackStage : public DecoderStage {
 public:
  std::unique_ptr<DecoderStream> Start(std::unique_ptr<DecoderStream> next) const override {
    return std::make_unique<ByteFallbackStream>(std::move(next));
  }
};

class ReplaceStage : public DecoderStage {
 public:
  ReplaceStage(std::string from, std::string to, bool joined)
      : from_(std::move(from)), to_(std::move(to)), joined_(joined) {}
  std::unique_ptr<DecoderStream> Start(std::unique_ptr<DecoderStream> next) const override {
    if (joined_) return std::make_unique<ReplaceJoinedStream>(std::move(next), from_, to_);
    return std::make_unique<ReplaceStream>(std::move(next), from_, to_);
  }

 private:
  std::string from_, to_;
  bool joined_;
};

class StripStage : public DecoderStage {
 public:
  StripStage(std::string content, size_t start, size_t stop, bool joined)
      : content_(std::move(content)), start_(start), stop_(stop), joined_(joined) {}
  std::unique_ptr<DecoderStream> Start(std::unique_ptr<DecoderStream> next) const override {
    if (joined_) {
      return std::make_unique<StripJoinedStream>(std::move(next), content_, start_, stop_);
    }
    return std::make_unique<StripStream>(std::move(next), content_, start_, stop_);
  }

 private:
  std::string content_;
  size_t start_, stop_;
  bool joined_;
};

class MetaspaceStage : public DecoderStage {
 public:
  MetaspaceStage(std::string replacement, bool strip_first)
      : replacement_(std::move(replacement)), strip_first_(strip_first) {}
  std::unique_ptr<DecoderStream> Start(std::unique_ptr<DecoderStream> next) const override {
    return std::make_unique<MetaspaceStream>(std::move(next), replacement_, strip_first_);
  }

 private:
  std::string replacement_;
  bool strip_first_;
};

}  // namespace

std::unique_ptr<DecoderStream> DecoderChain::Start() const {
  if (!joins_) return std::make_unique<JoinWithSpaces>();
  std::unique_ptr<DecoderStream> stream = std::make_unique<Sink>();
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    stream = (*stage)->Start(std::move(stream));
  }
  return stream;
}

std::unique_ptr<DecoderStage> MakeByteLevelStage() {
  return std::make_unique<ByteLevelStage>();
}
std::unique_ptr<DecoderStage> MakeByteFallbackStage() {
  return std::make_unique<ByteFallbackStage>();
}
std::unique_ptr<DecoderStage> MakeReplaceStage(std::string from, std::string to, bool joined) {
  return std::make_unique<ReplaceStage>(std::move(from), std::move(to), joined);
}
std::unique_ptr<DecoderStage> MakeStripStage(std::string content, size_t start, size_t stop,
                                             bool joined) {
  return std::make_unique<StripStage>(std::move(content), start, stop, joined);
}
std::unique_ptr<DecoderStage> MakeMetaspaceStage(std::string replacement, bool strip_first) {
  return std::make_unique<MetaspaceStage>(std::move(replacement), strip_first);
}

}  // namespace colibri
