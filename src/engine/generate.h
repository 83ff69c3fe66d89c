// engine/generate.h - what an answer is asked for and what comes of it; shared by scheduler and
// session.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/sampler.h"

namespace colibri {

enum class FinishReason : uint8_t {
  kStop,        // a token that ends an answer
  kStopString,  // one of the request's stop strings
  kLength,      // max_new_tokens
  kContext,     // no room for another token
  kCancelled,
  kError,
};

// "stop", "stop_string", "length", "context", "cancelled", "error".
std::string_view FinishReasonName(FinishReason reason);

// What a step added to an answer. `text` is whole characters and never a part of a stop string;
// concatenated over all deltas it is GenerateResult::text.
struct GenerateDelta {
  std::string_view text;  // may be empty
  int32_t token = -1;  // the token that came; -1 in a last delta that only flushes held-back text
};

struct GenerateRequest {
  std::vector<int32_t> prompt = {};  // token ids, at least one
  int32_t max_new_tokens = 0;        // 0: as many as the context holds
  SamplingParams sampling = {};
  std::vector<std::string> stop_strings =
      {};                                 // none empty; the answer ends before the first to appear
  std::vector<int32_t> stop_tokens = {};  // end the answer, besides the model's own
  bool ignore_eos = false;                // the model's own end tokens do not end it
  bool keep_special = false;              // the text shows special tokens
  // Called from the stepping thread; must not call the engine or throw. Returning false cancels: it
  // is not called again.
  std::function<bool(const GenerateDelta&)> on_delta = {};
  // Called after each chunk of the prompt with tokens done and tokens in all.
  std::function<void(int32_t, int32_t)> on_prefill = {};
  // When it becomes true (from any thread, or a signal handler) the request ends within one step.
  const std::atomic<bool>* cancel = nullptr;
};

struct GenerateResult {
  std::vector<int32_t> tokens = {};  // generated; a token that ended the answer is the last of them
  std::string text = {};             // without stop string; empty when the model has no tokenizer
  FinishReason finish = FinishReason::kError;
  Status status = {};            // of kError
  std::string stop_string = {};  // that ended it (kStopString)
  int32_t n_prompt = 0;          // prompt tokens...
  int32_t n_cached = 0;          // ...of which the cache held this many already
  double prefill_s = 0;          // from the start of its first step to its first token
  double decode_s = 0;           // from there to its end
};

}  // namespace colibri
