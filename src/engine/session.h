// engine/session.h - one conversation: its tokens stay in the cache from turn to turn.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace colibri {

struct SessionOptions {
  int32_t max_tokens = 0;     // that the conversation may hold; 0: the engine's max_context
  int32_t prefill_chunk = 0;  // as SchedulerOptions::prefill_chunk
};

// Same thread rule as the engine, but for GenerateRequest::cancel.
class Session {
 public:
  // Takes the pages for max_tokens at once. `engine` must outlive it.
  static Result<std::unique_ptr<Session>> Create(Engine& engine, const SessionOptions& options);
  ~Session();

  // Answers request.prompt, which is the whole conversation up to here: what it has in common with
  // the tokens in the cache is not computed again. A cancelled or failed answer leaves the session
  // usable. An error is of the request (see Scheduler::Submit); errors on the way are in the
  // result.
  Result<GenerateResult> Generate(GenerateRequest request);

  // Tokens in the cache.
  std::span<const int32_t> tokens() const;
  int32_t max_tokens() const;
  // Forgets everything.
  void Reset();

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri
