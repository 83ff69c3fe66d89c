#include "engine/session.h"

#include <algorithm>

#include "base/check.h"
#include "engine/answer.h"
#include "engine/scheduler.h"

namespace colibri {

struct Session::Impl {
  Engine& engine;
  SequenceId sequence;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<int32_t> tokens;  // in the cache

  // Cuts the cache to the tokens that it has in common with the prompt; one is left to compute.
  void KeepCommonPrefix(std::span<const int32_t> prompt) {
    const auto most = std::min(tokens.size(), prompt.size() - 1);
    const auto differ = std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(most),
                                      prompt.begin());
    auto n_common = static_cast<int32_t>(differ.first - tokens.begin());
    if (!engine.TruncateSequence(sequence, n_common).ok()) {
      // Recurrent state goes back to its beginning only.
      n_common = 0;
      const Status emptied = engine.TruncateSequence(sequence, 0);
      COLIBRI_CHECK(emptied.ok());
    }
    tokens.resize(static_cast<size_t>(n_common));
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
}

Session::~Session() {
  impl_->scheduler.reset();
  (void)impl_->engine.ReleaseSequence(impl_->sequence);
}

Result<std::unique_ptr<Session>> Session::Create(Engine& engine, const SessionOptions& options) {
  COLIBRI_ASSIGN_OR_RETURN(
      auto scheduler,
      Scheduler::Create(engine, {.max_running = 1, .prefill_chunk = options.prefill_chunk}));
  const int32_t max_tokens = options.max_tokens == 0 ? engine.max_context() : options.max_tokens;
  COLIBRI_ASSIGN_OR_RETURN(const SequenceId sequence, engine.CreateSequence(max_tokens));
  return std::unique_ptr<Session>(
      new Session(std::unique_ptr<Impl>(new Impl{engine, sequence, std::move(scheduler), {}})));
}

Result<GenerateResult> Session::Generate(GenerateRequest request) {
  Impl& s = *impl_;
  COLIBRI_RETURN_IF_ERROR(Answer::Check(s.engine, request, s.engine.SequenceCapacity(s.sequence)));
  s.KeepCommonPrefix(request.prompt);
  std::vector<int32_t> conversation = request.prompt;
  COLIBRI_ASSIGN_OR_RETURN(const int64_t id, s.scheduler->SubmitOn(s.sequence, std::move(request)));
  Status failure;
  while (failure.ok() && !s.scheduler->Done(id)) {
    failure = s.scheduler->Step().status();
  }
  if (!failure.ok()) {
    s.scheduler->Cancel(id);
    (void)s.scheduler->TakeResult(id);
  }
  GenerateResult result;
  if (failure.ok()) {
    result = s.scheduler->TakeResult(id);
    conversation.insert(conversation.end(), result.tokens.begin(), result.tokens.end());
  }
  const int32_t n_cached = s.engine.SequenceLength(s.sequence);
  COLIBRI_CHECK(n_cached >= 0 && static_cast<size_t>(n_cached) <= conversation.size());
  conversation.resize(static_cast<size_t>(n_cached));
  s.tokens = std::move(conversation);
  if (!failure.ok()) return failure;
  return result;
}

std::span<const int32_t> Session::tokens() const {
  return impl_->tokens;
}
int32_t Session::max_tokens() const {
  return impl_->engine.SequenceCapacity(impl_->sequence);
}

void Session::Reset() {
  const Status emptied = impl_->engine.TruncateSequence(impl_->sequence, 0);
  COLIBRI_CHECK(emptied.ok());
  impl_->tokens.clear();
}

}  // namespace colibri
