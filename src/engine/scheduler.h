// engine/scheduler.h - many answers at once: each step mixes decodes with chunks of prompts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace colibri {

struct SchedulerOptions {
  int32_t max_running = 0;    // answers computed at one time; 0: the engine's max_sequences
  int32_t prefill_chunk = 0;  // most prompt tokens of one request in a step; 0: no other limit than
                              // the step's
};

// Continuous batching. Requests start in order of submission as soon as their pages are free; every
// step decodes all running answers and fills what is left of the engine's max_batch_tokens with
// prompts. Who shares a batch never changes what an answer says. Same thread rule as the engine.
class Scheduler {
 public:
  // `engine` must outlive it. InvalidArgument when an option is out of range.
  static Result<std::unique_ptr<Scheduler>> Create(Engine& engine, const SchedulerOptions& options);
  // Releases the sequences of requests that still run.
  ~Scheduler();

  // Queues a request, or says why it can never run: InvalidArgument for a bad field or a prompt
  // that the context does not hold (with the counts), ResourceExhausted for one that the whole
  // cache does not hold. Returns a number that names it, ascending from 0.
  Result<int64_t> Submit(GenerateRequest request);
  // The same for a sequence of the caller's, which stands where the cache agrees with the prompt
  // (at least one token before its end) and has room for the answer: computing goes on from there,
  // and the sequence stays the caller's.
  Result<int64_t> SubmitOn(SequenceId sequence, GenerateRequest request);

  // One step. False when nothing is left to do. An error here is of the engine as a whole.
  Result<bool> Step();
  // Whether it has ended; its result can be taken once then.
  bool Done(int64_t request) const;
  GenerateResult TakeResult(int64_t request);
  // Ends it within this call, with what it has; no effect on one that has ended.
  void Cancel(int64_t request);
  int32_t n_running() const;
  int32_t n_waiting() const;

 private:
  struct Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Runs all requests to their end; result i is of request i. A request that cannot run has kError
// and the reason; the others are not touched by it.
Result<std::vector<GenerateResult>> RunBatch(Engine& engine, std::vector<GenerateRequest> requests,
                                             const SchedulerOptions& options = {});

}  // namespace colibri
