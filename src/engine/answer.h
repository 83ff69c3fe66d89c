// engine/answer.h - one request on its way: its tokens so far, its text, and when it ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/text_stream.h"

namespace colibri {

// Knows nothing of other requests: the scheduler feeds it logits.
class Answer {
 public:
  // Errors of the request, with `context` positions to live in.
  static Status Check(const Engine& engine, const GenerateRequest& request, int32_t context);
  // The request was checked.
  Answer(const Engine& engine, GenerateRequest request, int32_t context);

  // Most tokens of prompt and answer together.
  int32_t max_tokens() const { return max_tokens_; }

  // The sequence that it runs on, which holds n_cached of the prompt's tokens.
  void Start(SequenceId sequence, bool owns_sequence, int32_t n_cached);
  SequenceId sequence() const { return sequence_; }
  bool owns_sequence() const { return owns_sequence_; }

  // Tokens that the cache has not; at least one while it runs.
  std::span<const int32_t> pending() const {
    return std::span(tokens_).subspan(static_cast<size_t>(n_computed_));
  }
  bool is_decoding() const { return n_computed_ >= result_.n_prompt; }
  bool cancelled() const {
    return request_.cancel != nullptr && request_.cancel->load(std::memory_order_relaxed);
  }

  // n of the pending tokens are computed.
  void Advance(int32_t n);
  // Chooses the next token from the logits of the last one; all pending tokens are computed.
  void TakeLogits(std::span<const float> logits, Sampler& sampler);
  // Ends it now.
  void Fail(Status status);
  void Cancel();

  bool done() const { return done_; }
  GenerateResult TakeResult() { return std::move(result_); }

 private:
  using Clock = std::chrono::steady_clock;
  bool EndsAnswer(int32_t token) const;
  void Finish(FinishReason reason);
  bool Deliver(int32_t token);

  const Engine& engine_;
  GenerateRequest request_;
  int32_t max_tokens_ = 0;
  int32_t max_new_ = 0;
  std::vector<int32_t> tokens_;  // prompt and answer
  int32_t n_computed_ = 0;       // of tokens_, those in the cache
  TextStream stream_;
  size_t delivered_ = 0;  // bytes of the stream's text that on_delta has seen
  SequenceId sequence_ = -1;
  bool owns_sequence_ = false;
  bool done_ = false;
  GenerateResult result_;
  Clock::time_point start_, first_token_;
};

}  // namespace colibri
