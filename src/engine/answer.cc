#include "engine/answer.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "text/unicode.h"

namespace colibri {
namespace {

double Seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

Status Answer::Check(const Engine& engine, const GenerateRequest& request, int32_t context) {
  const auto n_prompt = request.prompt.size();
  if (n_prompt == 0) return InvalidArgument("the prompt has no tokens");
  if (n_prompt >= static_cast<size_t>(context)) {
    return InvalidArgument(StrCat("the prompt has ", n_prompt, " tokens, the context holds ",
                                  context, ", of which the answer needs at least one"));
  }
  const int32_t vocab_size = engine.vocab_size();
  for (size_t i = 0; i < n_prompt; ++i) {
    if (request.prompt[i] < 0 || request.prompt[i] >= vocab_size) {
      return InvalidArgument(StrCat("token ", i, " of the prompt has id ", request.prompt[i],
                                    ", must be in [0, ", vocab_size, ")"));
    }
  }
  if (request.max_new_tokens < 0) {
    return InvalidArgument(
        StrCat("max_new_tokens is ", request.max_new_tokens, ", must not be negative"));
  }
  COLIBRI_RETURN_IF_ERROR(ValidateSampling(request.sampling, vocab_size));
  for (size_t i = 0; i < request.stop_strings.size(); ++i) {
    const std::string& stop = request.stop_strings[i];
    if (stop.empty()) return InvalidArgument(StrCat("stop string ", i, " is empty"));
    if (FindInvalidUtf8(stop)) {
      return InvalidArgument(StrCat("stop string ", i, " is not valid UTF-8: ", Printable(stop)));
    }
  }
  if (!request.stop_strings.empty() && engine.tokenizer() == nullptr) {
    return InvalidArgument("stop strings need a tokenizer, the model has none");
  }
  for (const int32_t id : request.stop_tokens) {
    if (id < 0 || id >= vocab_size) {
      return InvalidArgument(StrCat("stop token ", id, ", must be in [0, ", vocab_size, ")"));
    }
  }
  return Status();
}

Answer::Answer(const Engine& engine, GenerateRequest request, int32_t context)
    : engine_(engine),
      request_(std::move(request)),
      tokens_(std::move(request_.prompt)),
      stream_(engine.tokenizer(), std::move(request_.stop_strings), request_.keep_special) {
  result_.n_prompt = static_cast<int32_t>(tokens_.size());
  const int32_t room = context - result_.n_prompt;
  max_new_ = request_.max_new_tokens == 0 ? room : std::min(room, request_.max_new_tokens);
  max_tokens_ = result_.n_prompt + max_new_;
  tokens_.reserve(static_cast<size_t>(max_tokens_));
  result_.tokens.reserve(static_cast<size_t>(max_new_));
  start_ = first_token_ = Clock::now();
}

void Answer::Start(SequenceId sequence, bool owns_sequence, int32_t n_cached) {
  COLIBRI_CHECK(n_cached >= 0 && n_cached < result_.n_prompt);
  sequence_ = sequence;
  owns_sequence_ = owns_sequence;
  result_.n_cached = n_computed_ = n_cached;
  start_ = first_token_ = Clock::now();
}

void Answer::Advance(int32_t n) {
  const bool was_prompt = !is_decoding();
  n_computed_ += n;
  COLIBRI_CHECK(n_computed_ <= static_cast<int32_t>(tokens_.size()));
  if (was_prompt && request_.on_prefill) request_.on_prefill(n_computed_, result_.n_prompt);
}

bool Answer::EndsAnswer(int32_t token) const {
  if (!request_.ignore_eos && engine_.IsEos(token)) return true;
  return std::find(request_.stop_tokens.begin(), request_.stop_tokens.end(), token) !=
         request_.stop_tokens.end();
}

void Answer::TakeLogits(std::span<const float> logits, Sampler& sampler) {
  const auto token =
      sampler.Sample(request_.sampling, logits, {tokens_, static_cast<size_t>(result_.n_prompt)});
  if (!token.ok()) {
    Fail(token.status());
    return;
  }
  if (result_.tokens.empty()) first_token_ = Clock::now();
  tokens_.push_back(*token);
  result_.tokens.push_back(*token);

  FinishReason reason = FinishReason::kError;
  bool ends = true;
  const std::string* stop = nullptr;
  if (EndsAnswer(*token)) {
    reason = FinishReason::kStop;
  } else {
    stop = stream_.Push(*token);
    if (stop != nullptr) {
      reason = FinishReason::kStopString;
    } else if (static_cast<int32_t>(result_.tokens.size()) == max_new_) {
      reason = max_new_ == request_.max_new_tokens ? FinishReason::kLength : FinishReason::kContext;
    } else {
      ends = false;
    }
  }
  if (ends && stop == nullptr) {
    stop = stream_.Finish();
    if (stop != nullptr) reason = FinishReason::kStopString;
  }
  if (stop != nullptr) result_.stop_string = *stop;
  const bool wants_more = Deliver(*token);
  if (ends) {
    Finish(reason);
  } else if (!wants_more) {
    Finish(FinishReason::kCancelled);
  }
}

bool Answer::Deliver(int32_t token) {
  const std::string_view text = std::string_view(stream_.text()).substr(delivered_);
  delivered_ = stream_.text().size();
  return !request_.on_delta || request_.on_delta({.text = text, .token = token});
}

void Answer::Finish(FinishReason reason) {
  const auto now = Clock::now();
  if (result_.tokens.empty()) first_token_ = now;
  result_.prefill_s = Seconds(first_token_ - start_);
  result_.decode_s = Seconds(now - first_token_);
  result_.finish = reason;
  result_.text = stream_.text();
  done_ = true;
}

void Answer::Fail(Status status) {
  result_.status = std::move(status);
  (void)stream_.Finish();
  if (stream_.text().size() > delivered_) (void)Deliver(-1);
  Finish(FinishReason::kError);
}

void Answer::Cancel() {
  (void)stream_.Finish();
  if (stream_.text().size() > delivered_) (void)Deliver(-1);
  Finish(FinishReason::kCancelled);
}

}  // namespace colibri
