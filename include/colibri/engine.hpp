// colibri/engine.hpp - the C interface of colibri.h with owners and values of C++; header only.
//
//   auto engine = colibri::api::Engine::Load("model.gguf");
//   if (!engine) { std::cerr << engine.error().message << "\n"; return 1; }
//   auto session = engine->NewSession();
//   auto prompt = engine->Tokenize("Hello");
//   colibri::api::GenerateOptions options;
//   options.max_new_tokens = 64;
//   options.on_delta = [](std::string_view text, int32_t) { std::cout << text; return true; };
//   auto answer = session->Generate(*prompt, options);
//
// No function throws, but for std::bad_alloc of the standard containers. Rules of threads and
// lifetimes are those of colibri.h. Callbacks must not throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/colibri.h"

namespace colibri::api {

struct Error {
  colibri_status status = COLIBRI_OK;
  std::string message;
};

// A value, or the error that there is instead of one.
template <typename T>
class Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}      // NOLINT: implicit by design
  Expected(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design
  explicit operator bool() const { return value_.has_value(); }
  // Of a value alone.
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  // Of an error alone.
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

struct Done {};  // the value of what has none

struct Answer {
  colibri_finish finish = COLIBRI_FINISH_STOP;
  std::vector<int32_t> tokens;
  std::string text;
  int32_t n_prompt = 0, n_cached = 0;
  double prefill_s = 0, decode_s = 0;
};

// The fields of colibri_generate_options, with containers.
struct GenerateOptions {
  int32_t max_new_tokens = 0;
  float temperature = 0;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  uint64_t seed = 0;
  std::vector<colibri_logit_bias> logit_bias;
  std::vector<std::string> stop_strings;  // without zero bytes
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false;
  bool keep_special = false;
  std::function<bool(std::string_view text, int32_t token)> on_delta;  // false cancels
  std::function<void(int32_t done, int32_t total)> on_prefill;
};

namespace internal {

// Owns the message of one call: its last argument is message().
class Call {
 public:
  ~Call() { colibri_free(message_); }
  char** message() { return &message_; }
  Error ToError(colibri_status status) const {
    return {status, message_ != nullptr ? message_ : colibri_status_name(status)};
  }

 private:
  char* message_ = nullptr;
};

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* handle) const {
    kFree(handle);
  }
};

struct Freed {
  void operator()(void* memory) const { colibri_free(memory); }
};

}  // namespace internal

class Session {
 public:
  Expected<Answer> Generate(const std::vector<int32_t>& prompt, const GenerateOptions& options) {
    colibri_generate_options c;
    colibri_generate_options_init(&c);
    c.max_new_tokens = options.max_new_tokens;
    c.temperature = options.temperature;
    c.top_k = options.top_k;
    c.top_p = options.top_p;
    c.min_p = options.min_p;
    c.repetition_penalty = options.repetition_penalty;
    c.presence_penalty = options.presence_penalty;
    c.frequency_penalty = options.frequency_penalty;
    c.seed = options.seed;
    c.logit_bias = options.logit_bias.data();
    c.n_logit_bias = options.logit_bias.size();
    std::vector<const char*> stops;
    for (const std::string& stop : options.stop_strings) stops.push_back(stop.c_str());
    c.stop_strings = stops.data();
    c.n_stop_strings = stops.size();
    c.stop_tokens = options.stop_tokens.data();
    c.n_stop_tokens = options.stop_tokens.size();
    c.ignore_eos = options.ignore_eos ? 1 : 0;
    c.keep_special = options.keep_special ? 1 : 0;
    c.user = const_cast<GenerateOptions*>(&options);
    if (options.on_delta) {
      c.on_delta = [](void* user, const char* text, size_t n_bytes, int32_t token) {
        return static_cast<const GenerateOptions*>(user)->on_delta({text, n_bytes}, token) ? 0 : 1;
      };
    }
    if (options.on_prefill) {
      c.on_prefill = [](void* user, int32_t done, int32_t total) {
        static_cast<const GenerateOptions*>(user)->on_prefill(done, total);
      };
    }
    colibri_result result;
    colibri_result_init(&result);
    const std::unique_ptr<colibri_result, internal::Deleter<colibri_result_clear>> cleared(&result);
    internal::Call call;
    static const int32_t kNone = 0;
    const colibri_status status =
        colibri_session_generate(handle_.get(), prompt.empty() ? &kNone : prompt.data(),
                                 prompt.size(), &c, &result, call.message());
    if (status != COLIBRI_OK) return call.ToError(status);
    Answer answer;
    answer.finish = result.finish;
    answer.tokens.assign(result.tokens, result.tokens + result.n_tokens);
    answer.text.assign(result.text, result.n_bytes);
    answer.n_prompt = result.n_prompt;
    answer.n_cached = result.n_cached;
    answer.prefill_s = result.prefill_s;
    answer.decode_s = result.decode_s;
    return answer;
  }
  // From any thread, or a signal handler.
  void Cancel() { colibri_session_cancel(handle_.get()); }
  Expected<Done> Reset() {
    internal::Call call;
    const colibri_status status = colibri_session_reset(handle_.get(), call.message());
    if (status != COLIBRI_OK) return call.ToError(status);
    return Done{};
  }

 private:
  friend class Engine;
  explicit Session(colibri_session* handle) : handle_(handle) {}
  std::unique_ptr<colibri_session, internal::Deleter<colibri_session_free>> handle_;
};

class Engine {
 public:
  // `options` from colibri_engine_options_init, or null.
  static Expected<Engine> Load(const std::string& path,
                               const colibri_engine_options* options = nullptr) {
    internal::Call call;
    colibri_engine* handle = nullptr;
    const colibri_status status =
        colibri_engine_load(path.c_str(), options, &handle, call.message());
    if (status != COLIBRI_OK) return call.ToError(status);
    return Engine(handle);
  }

  colibri_engine_info info() const {
    colibri_engine_info info;
    info.struct_size = sizeof(info);
    colibri_engine_get_info(handle_.get(), &info);
    return info;
  }
  Expected<std::vector<int32_t>> Tokenize(std::string_view text, bool add_special = true) const {
    internal::Call call;
    int32_t* tokens = nullptr;
    size_t n_tokens = 0;
    const colibri_status status =
        colibri_tokenize(handle_.get(), text.data(), text.size(), add_special ? 1 : 0, &tokens,
                         &n_tokens, call.message());
    if (status != COLIBRI_OK) return call.ToError(status);
    const std::unique_ptr<int32_t, internal::Freed> owned(tokens);
    return std::vector<int32_t>(tokens, tokens + n_tokens);
  }
  Expected<std::string> Detokenize(const std::vector<int32_t>& tokens,
                                   bool skip_special = true) const {
    internal::Call call;
    char* text = nullptr;
    size_t n_bytes = 0;
    const colibri_status status =
        colibri_detokenize(handle_.get(), tokens.data(), tokens.size(), skip_special ? 1 : 0, &text,
                           &n_bytes, call.message());
    if (status != COLIBRI_OK) return call.ToError(status);
    const std::unique_ptr<char, internal::Freed> owned(text);
    return std::string(text, n_bytes);
  }
  // max_tokens 0: the engine's context.
  Expected<Session> NewSession(int32_t max_tokens = 0) {
    internal::Call call;
    colibri_session* session = nullptr;
    const colibri_status status =
        colibri_session_create(handle_.get(), max_tokens, &session, call.message());
    if (status != COLIBRI_OK) return call.ToError(status);
    return Session(session);
  }
  // For colibri_sequence_* and colibri_step.
  colibri_engine* handle() { return handle_.get(); }

 private:
  explicit Engine(colibri_engine* handle) : handle_(handle) {}
  std::unique_ptr<colibri_engine, internal::Deleter<colibri_engine_free>> handle_;
};

}  // namespace colibri::api
