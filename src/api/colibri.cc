#include "colibri/colibri.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "api/options.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "text/tokenizer.h"

// What a handle stands for. Sessions share the engine, so that handles can be freed in any order.
struct EngineState {
  std::unique_ptr<colibri::Engine> engine;
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;
  // Sessions that were freed while a call used the engine, a list; the end of that call deletes
  // them.
  std::atomic<colibri_session*> freed{nullptr};
};

struct colibri_engine {
  std::shared_ptr<EngineState> state;
};

struct colibri_session {
  std::shared_ptr<EngineState> state;  // outlives the session
  std::unique_ptr<colibri::Session> session;
  std::atomic<bool> cancel{false};
  colibri_session* next_freed = nullptr;  // in EngineState::freed
};

namespace {

using colibri::InvalidArgument;
using colibri::NotFound;
using colibri::ResourceExhausted;
using colibri::Status;
using colibri::StatusCode;
using colibri::StrCat;

colibri_status ToC(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return COLIBRI_OK;
    case StatusCode::kInvalidArgument:
      return COLIBRI_INVALID_ARGUMENT;
    case StatusCode::kNotFound:
      return COLIBRI_NOT_FOUND;
    case StatusCode::kCorruptData:
      return COLIBRI_CORRUPT_DATA;
    case StatusCode::kUnsupported:
      return COLIBRI_UNSUPPORTED;
    case StatusCode::kResourceExhausted:
      return COLIBRI_RESOURCE_EXHAUSTED;
    case StatusCode::kIoError:
      return COLIBRI_IO_ERROR;
    case StatusCode::kCancelled:
      return COLIBRI_CANCELLED;
    case StatusCode::kDeadlineExceeded:
      return COLIBRI_DEADLINE_EXCEEDED;
    case StatusCode::kInternal:
      return COLIBRI_INTERNAL;
  }
  return COLIBRI_INTERNAL;
}

// n_bytes of `data` in the caller's hands, and a zero byte behind them.
char* CopyOut(const void* data, size_t n_bytes) {
  auto* out = static_cast<char*>(std::malloc(n_bytes + 1));
  if (out == nullptr) throw std::bad_alloc();
  if (n_bytes > 0) std::memcpy(out, data, n_bytes);
  out[n_bytes] = 0;
  return out;
}

void SetError(char** error, const char* message) noexcept {
  if (error == nullptr) return;
  *error = static_cast<char*>(std::malloc(std::strlen(message) + 1));
  if (*error != nullptr) std::strcpy(*error, message);
}

// The boundary: nothing that body throws goes on to the caller.
template <typename Body>
colibri_status Guarded(char** error, Body&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    const Status status = body();
    if (status.ok()) return COLIBRI_OK;
    SetError(error, status.message().c_str());
    return ToC(status.code());
  } catch (const std::bad_alloc&) {
    SetError(error, "out of memory");
    return COLIBRI_RESOURCE_EXHAUSTED;
  } catch (const std::exception& e) {
    SetError(error, e.what());
    return COLIBRI_INTERNAL;
  } catch (...) {
    SetError(error, "an unknown exception");
    return COLIBRI_INTERNAL;
  }
}

// Ends a use of the engine. Whoever frees a session first puts it into the list and then looks
// whether the engine is in use, so looking at the list once more behind the flag misses none.
void Leave(EngineState& state) noexcept {
  do {
    colibri_session* session = state.freed.exchange(nullptr);
    while (session != nullptr) delete std::exchange(session, session->next_freed);
    state.in_use.clear();
  } while (state.freed.load() != nullptr && !state.in_use.test_and_set());
}

// Guarded, for what needs the engine to itself. Holds the state: the call's own session may be
// freed meanwhile.
template <typename Body>
colibri_status Exclusive(std::shared_ptr<EngineState> state, char** error, Body&& body) noexcept {
  if (state->in_use.test_and_set()) {
    SetError(error, "another call is using this engine");
    return COLIBRI_BUSY;
  }
  const colibri_status status = Guarded(error, body);
  Leave(*state);
  return status;
}

Status Missing(std::string_view argument) {
  return InvalidArgument(StrCat(argument, " must not be NULL"));
}

colibri_status Refuse(char** error, std::string_view argument) noexcept {
  return Guarded(error, [&] { return Missing(argument); });
}

// Whether an option names one of an enum's values, 0 to `last`.
Status CheckChoice(std::string_view name, int32_t value, int32_t last) {
  if (value >= 0 && value <= last) return Status();
  return InvalidArgument(StrCat(name, " is ", value, ", must be in [0, ", last, "]"));
}

colibri::KvType ToKvType(int32_t kv_type) {
  switch (kv_type) {
    case COLIBRI_KV_F32:
      return colibri::KvType::kF32;
    case COLIBRI_KV_BF16:
      return colibri::KvType::kBF16;
    case COLIBRI_KV_Q8_0:
      return colibri::KvType::kQ8_0;
    default:
      return colibri::KvType::kF16;
  }
}

colibri::ActivationType ToActivations(int32_t activations) {
  switch (activations) {
    case COLIBRI_ACTIVATIONS_F32:
      return colibri::ActivationType::kFloat32;
    case COLIBRI_ACTIVATIONS_BF16:
      return colibri::ActivationType::kBFloat16;
    default:
      return colibri::ActivationType::kInt8;
  }
}

colibri::EngineOptions ToEngineOptions(const colibri_engine_options& c) {
  colibri::EngineOptions options;
  options.n_threads = c.n_threads;
  options.max_context = c.max_context;
  options.max_batch_tokens = c.max_batch_tokens;
  options.max_sequences = c.max_sequences;
  options.kv_cache_bytes = c.kv_cache_bytes;
  options.memory_budget_bytes = c.memory_budget_bytes;
  options.activations = ToActivations(c.activations);
  options.kv_type = ToKvType(c.kv_type);
  if (c.isa != nullptr) options.forced_isa = c.isa;
  if (c.on_load != nullptr) {
    options.load_progress = [c](uint64_t done, uint64_t total) { c.on_load(c.user, done, total); };
  }
  return options;
}

colibri::Log ToLog(const colibri_engine_options& c) {
  if (c.on_log == nullptr) return {};
  return colibri::Log([c](colibri::LogLevel level, std::string_view line) {
    c.on_log(c.user, static_cast<colibri_log_level>(level), std::string(line).c_str());
  });
}

Status ToRequest(const colibri_generate_options& c, colibri::GenerateRequest& request) {
  request.max_new_tokens = c.max_new_tokens;
  request.sampling.temperature = c.temperature;
  request.sampling.top_k = c.top_k;
  request.sampling.top_p = c.top_p;
  request.sampling.min_p = c.min_p;
  request.sampling.repetition_penalty = c.repetition_penalty;
  request.sampling.presence_penalty = c.presence_penalty;
  request.sampling.frequency_penalty = c.frequency_penalty;
  request.sampling.seed = c.seed;
  if (c.logit_bias == nullptr && c.n_logit_bias > 0) return Missing("logit_bias");
  for (size_t i = 0; i < c.n_logit_bias; ++i) {
    request.sampling.logit_bias.emplace_back(c.logit_bias[i].token, c.logit_bias[i].bias);
  }
  if (c.stop_strings == nullptr && c.n_stop_strings > 0) return Missing("stop_strings");
  for (size_t i = 0; i < c.n_stop_strings; ++i) {
    if (c.stop_strings[i] == nullptr) return Missing(StrCat("stop_strings[", i, "]"));
    request.stop_strings.emplace_back(c.stop_strings[i]);
  }
  if (c.stop_tokens == nullptr && c.n_stop_tokens > 0) return Missing("stop_tokens");
  if (c.n_stop_tokens > 0) {
    request.stop_tokens.assign(c.stop_tokens, c.stop_tokens + c.n_stop_tokens);
  }
  request.ignore_eos = c.ignore_eos != 0;
  request.keep_special = c.keep_special != 0;
  if (c.on_delta != nullptr) {
    request.on_delta = [c](const colibri::GenerateDelta& delta) {
      return c.on_delta(c.user, delta.text.data(), delta.text.size(), delta.token) == 0;
    };
  }
  if (c.on_prefill != nullptr) {
    request.on_prefill = [c](int32_t done, int32_t total) { c.on_prefill(c.user, done, total); };
  }
  return Status();
}

// An error has become a Status before; this is of the others.
colibri_finish ToC(colibri::FinishReason reason) {
  switch (reason) {
    case colibri::FinishReason::kStop:
      return COLIBRI_FINISH_STOP;
    case colibri::FinishReason::kStopString:
      return COLIBRI_FINISH_STOP_STRING;
    case colibri::FinishReason::kLength:
      return COLIBRI_FINISH_LENGTH;
    case colibri::FinishReason::kContext:
      return COLIBRI_FINISH_CONTEXT;
    case colibri::FinishReason::kCancelled:
    case colibri::FinishReason::kError:
      return COLIBRI_FINISH_CANCELLED;
  }
  return COLIBRI_FINISH_CANCELLED;
}

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using OwnedBytes = std::unique_ptr<char, FreeDeleter>;

void WriteResult(const colibri::GenerateResult& result, colibri_result* out) {
  OwnedBytes tokens(CopyOut(result.tokens.data(), result.tokens.size() * sizeof(int32_t)));
  OwnedBytes text(CopyOut(result.text.data(), result.text.size()));
  colibri_result c{};
  c.finish = ToC(result.finish);
  c.n_prompt = result.n_prompt;
  c.n_cached = result.n_cached;
  c.prefill_s = result.prefill_s;
  c.decode_s = result.decode_s;
  c.n_tokens = result.tokens.size();
  c.tokens = reinterpret_cast<int32_t*>(tokens.release());
  c.n_bytes = result.text.size();
  c.text = text.release();
  colibri::WriteStruct(c, out);
}

Status NeedTokenizer(const colibri::Engine& engine) {
  if (engine.tokenizer() != nullptr) return Status();
  return NotFound(StrCat("the model has no tokenizer: ", engine.tokenizer_status().message()));
}

}  // namespace

const char* colibri_version(void) {
  return COLIBRI_VERSION;
}

const char* colibri_status_name(colibri_status status) {
  switch (status) {
    case COLIBRI_OK:
      return "ok";
    case COLIBRI_INVALID_ARGUMENT:
      return "invalid argument";
    case COLIBRI_NOT_FOUND:
      return "not found";
    case COLIBRI_CORRUPT_DATA:
      return "corrupt data";
    case COLIBRI_UNSUPPORTED:
      return "unsupported";
    case COLIBRI_RESOURCE_EXHAUSTED:
      return "resource exhausted";
    case COLIBRI_IO_ERROR:
      return "I/O error";
    case COLIBRI_CANCELLED:
      return "cancelled";
    case COLIBRI_DEADLINE_EXCEEDED:
      return "deadline exceeded";
    case COLIBRI_INTERNAL:
      return "internal";
    case COLIBRI_BUSY:
      return "busy";
  }
  return "unknown status";
}

void colibri_free(void* memory) {
  std::free(memory);
}

void colibri_engine_options_init(colibri_engine_options* options) {
  if (options == nullptr) return;
  const colibri::EngineOptions defaults;
  *options = {};
  options->struct_size = sizeof(*options);
  options->max_batch_tokens = defaults.max_batch_tokens;
  options->max_sequences = defaults.max_sequences;
}

colibri_status colibri_engine_load(const char* path, const colibri_engine_options* options,
                                   colibri_engine** engine, char** error) {
  if (path == nullptr) return Refuse(error, "path");
  if (engine == nullptr) return Refuse(error, "engine");
  return Guarded(error, [&] {
    colibri_engine_options c;
    colibri_engine_options_init(&c);
    COLIBRI_RETURN_IF_ERROR(colibri::ReadOptions(options, "colibri_engine_options", c));
    COLIBRI_RETURN_IF_ERROR(CheckChoice("activations", c.activations, COLIBRI_ACTIVATIONS_BF16));
    COLIBRI_RETURN_IF_ERROR(CheckChoice("kv_type", c.kv_type, COLIBRI_KV_Q8_0));
    auto state = std::make_shared<EngineState>();
    COLIBRI_ASSIGN_OR_RETURN(state->engine,
                             colibri::Engine::Create(path, ToEngineOptions(c), ToLog(c)));
    *engine = new colibri_engine{std::move(state)};
    return Status();
  });
}

void colibri_engine_free(colibri_engine* engine) {
  delete engine;
}

void colibri_engine_get_info(const colibri_engine* engine, colibri_engine_info* info) {
  if (engine == nullptr || info == nullptr) return;
  const colibri::Engine& e = *engine->state->engine;
  colibri_engine_info c{};
  c.vocab_size = e.vocab_size();
  c.hidden = e.config().hidden;
  c.n_layers = e.config().n_layers;
  c.max_context = e.max_context();
  c.max_batch_tokens = e.max_batch_tokens();
  c.max_sequences = e.max_sequences();
  c.n_threads = e.n_threads();
  c.has_tokenizer = e.tokenizer() != nullptr ? 1 : 0;
  c.weight_bytes = e.model().weight_bytes();
  c.kv_cache_bytes = e.memory_plan().kv_bytes;
  c.isa = e.isa();
  c.family = e.config().family.c_str();
  colibri::WriteStruct(c, info);
}

colibri_status colibri_tokenize(const colibri_engine* engine, const char* text, size_t n_bytes,
                                int add_special, int32_t** tokens, size_t* n_tokens, char** error) {
  if (engine == nullptr) return Refuse(error, "engine");
  if (text == nullptr && n_bytes > 0) return Refuse(error, "text");
  if (tokens == nullptr || n_tokens == nullptr) return Refuse(error, "tokens and n_tokens");
  return Guarded(error, [&] {
    const colibri::Engine& e = *engine->state->engine;
    COLIBRI_RETURN_IF_ERROR(NeedTokenizer(e));
    COLIBRI_ASSIGN_OR_RETURN(
        const std::vector<int32_t> ids,
        e.tokenizer()->Encode({text, n_bytes}, {.add_special_tokens = add_special != 0}));
    *tokens = reinterpret_cast<int32_t*>(CopyOut(ids.data(), ids.size() * sizeof(int32_t)));
    *n_tokens = ids.size();
    return Status();
  });
}

colibri_status colibri_detokenize(const colibri_engine* engine, const int32_t* tokens,
                                  size_t n_tokens, int skip_special, char** text, size_t* n_bytes,
                                  char** error) {
  if (engine == nullptr) return Refuse(error, "engine");
  if (tokens == nullptr && n_tokens > 0) return Refuse(error, "tokens");
  if (text == nullptr) return Refuse(error, "text");
  return Guarded(error, [&] {
    const colibri::Engine& e = *engine->state->engine;
    COLIBRI_RETURN_IF_ERROR(NeedTokenizer(e));
    const std::string decoded = e.tokenizer()->Decode({tokens, n_tokens}, skip_special != 0);
    *text = CopyOut(decoded.data(), decoded.size());
    if (n_bytes != nullptr) *n_bytes = decoded.size();
    return Status();
  });
}

void colibri_generate_options_init(colibri_generate_options* options) {
  if (options == nullptr) return;
  const colibri::SamplingParams defaults;
  *options = {};
  options->struct_size = sizeof(*options);
  options->temperature = defaults.temperature;
  options->top_p = defaults.top_p;
  options->repetition_penalty = defaults.repetition_penalty;
}

void colibri_result_init(colibri_result* result) {
  if (result == nullptr) return;
  *result = {};
  result->struct_size = sizeof(*result);
}

void colibri_result_clear(colibri_result* result) {
  if (result == nullptr) return;
  std::free(result->tokens);
  std::free(result->text);
  colibri_result_init(result);
}

colibri_status colibri_session_create(colibri_engine* engine, int32_t max_tokens,
                                      colibri_session** session, char** error) {
  if (engine == nullptr) return Refuse(error, "engine");
  if (session == nullptr) return Refuse(error, "session");
  return Exclusive(engine->state, error, [&] {
    auto handle = std::make_unique<colibri_session>();
    handle->state = engine->state;
    COLIBRI_ASSIGN_OR_RETURN(handle->session, colibri::Session::Create(*engine->state->engine,
                                                                       {.max_tokens = max_tokens}));
    *session = handle.release();
    return Status();
  });
}

void colibri_session_free(colibri_session* session) {
  if (session == nullptr) return;
  const std::shared_ptr<EngineState> state = session->state;
  session->cancel.store(true);
  session->next_freed = state->freed.load();
  while (!state->freed.compare_exchange_weak(session->next_freed, session)) {
  }
  if (!state->in_use.test_and_set()) Leave(*state);
}

colibri_status colibri_session_generate(colibri_session* session, const int32_t* prompt,
                                        size_t n_prompt, const colibri_generate_options* options,
                                        colibri_result* result, char** error) {
  if (session == nullptr) return Refuse(error, "session");
  if (prompt == nullptr) return Refuse(error, "prompt");
  return Exclusive(session->state, error, [&] {
    colibri_generate_options c;
    colibri_generate_options_init(&c);
    COLIBRI_RETURN_IF_ERROR(colibri::ReadOptions(options, "colibri_generate_options", c));
    // A structure without room for the answer's memory would lose it.
    if (result != nullptr && result->struct_size < sizeof(*result)) {
      return InvalidArgument(StrCat("result.struct_size is ", result->struct_size,
                                    ": call colibri_result_init before"));
    }
    colibri::GenerateRequest request;
    request.prompt.assign(prompt, prompt + n_prompt);
    COLIBRI_RETURN_IF_ERROR(ToRequest(c, request));
    session->cancel.store(false, std::memory_order_relaxed);
    request.cancel = &session->cancel;
    COLIBRI_ASSIGN_OR_RETURN(const colibri::GenerateResult answer,
                             session->session->Generate(std::move(request)));
    if (answer.finish == colibri::FinishReason::kError) return answer.status;
    if (result != nullptr) WriteResult(answer, result);
    return Status();
  });
}

void colibri_session_cancel(colibri_session* session) {
  if (session != nullptr) session->cancel.store(true, std::memory_order_relaxed);
}

colibri_status colibri_session_reset(colibri_session* session, char** error) {
  if (session == nullptr) return Refuse(error, "session");
  return Exclusive(session->state, error, [&] {
    session->session->Reset();
    return Status();
  });
}

colibri_status colibri_sequence_create(colibri_engine* engine, int32_t max_tokens,
                                       int64_t* sequence, char** error) {
  if (engine == nullptr) return Refuse(error, "engine");
  if (sequence == nullptr) return Refuse(error, "sequence");
  return Exclusive(engine->state, error, [&] {
    COLIBRI_ASSIGN_OR_RETURN(*sequence, engine->state->engine->CreateSequence(max_tokens));
    return Status();
  });
}

colibri_status colibri_sequence_truncate(colibri_engine* engine, int64_t sequence, int32_t n_tokens,
                                         char** error) {
  if (engine == nullptr) return Refuse(error, "engine");
  return Exclusive(engine->state, error,
                   [&] { return engine->state->engine->TruncateSequence(sequence, n_tokens); });
}

colibri_status colibri_sequence_release(colibri_engine* engine, int64_t sequence, char** error) {
  if (engine == nullptr) return Refuse(error, "engine");
  return Exclusive(engine->state, error,
                   [&] { return engine->state->engine->ReleaseSequence(sequence); });
}

colibri_status colibri_step(colibri_engine* engine, colibri_step_item* items, size_t n_items,
                            float* logits, size_t logits_floats, char** error) {
  if (engine == nullptr) return Refuse(error, "engine");
  if (items == nullptr && n_items > 0) return Refuse(error, "items");
  if (logits == nullptr && logits_floats > 0) return Refuse(error, "logits");
  return Exclusive(engine->state, error, [&] {
    std::vector<colibri::StepItem> step(n_items);
    std::vector<colibri::StepResult> results(n_items);
    for (size_t i = 0; i < n_items; ++i) {
      const colibri_step_item& item = items[i];
      if (item.struct_size != sizeof(item)) {
        return InvalidArgument(
            StrCat("items[", i, "].struct_size is ", item.struct_size, ", must be ", sizeof(item)));
      }
      if (item.tokens == nullptr && item.n_tokens > 0) {
        return Missing(StrCat("items[", i, "].tokens"));
      }
      if (item.want < COLIBRI_WANT_NONE || item.want > COLIBRI_WANT_ALL) {
        return InvalidArgument(
            StrCat("items[", i, "].want is ", static_cast<int>(item.want), ", must be in [0, 2]"));
      }
      step[i] = {.sequence = item.sequence,
                 .tokens = std::span(item.tokens, item.n_tokens),
                 .want = static_cast<colibri::LogitsWanted>(item.want)};
    }
    COLIBRI_RETURN_IF_ERROR(
        engine->state->engine
            ->Step(step, {.logits = std::span(logits, logits_floats), .results = results})
            .status());
    for (size_t i = 0; i < n_items; ++i) {
      items[i].status = ToC(results[i].status.code());
      items[i].first_logits_row = results[i].first_logits_row;
      items[i].n_logits_rows = results[i].status.ok() ? results[i].n_logits_rows : 0;
      const std::string& message = results[i].status.message();
      const size_t length = std::min(message.size(), sizeof(items[i].message) - 1);
      std::memcpy(items[i].message, message.data(), length);
      items[i].message[length] = 0;
    }
    return Status();
  });
}
