#include "engine/scheduler.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/check.h"
#include "base/strings.h"
#include "engine/answer.h"

namespace colibri {
namespace {

struct Entry {
  int64_t id = 0;
  std::unique_ptr<Answer> answer;
};

// Where a result of the step belongs.
struct Share {
  Answer* answer = nullptr;
  bool wants_logits = false;
};

}  // namespace

struct Scheduler::Impl {
  Impl(Engine& e, const SchedulerOptions& options)
      : engine(e),
        max_running(options.max_running),
        prefill_chunk(options.prefill_chunk),
        sampler(e.vocab_size()),
        logits(static_cast<size_t>(max_running) * static_cast<size_t>(e.vocab_size())) {
    const auto n = static_cast<size_t>(max_running);
    running.reserve(n);
    items.reserve(n);
    shares.reserve(n);
    results.resize(n);
  }

  Engine& engine;
  const int32_t max_running;
  const int32_t prefill_chunk;
  int64_t next_id = 0;
  std::deque<Entry> waiting;
  std::vector<Entry> running;  // in order of their start
  size_t next_decode = 0;      // where the decodes of a step begin, when it can't hold them all
  std::map<int64_t, GenerateResult> finished;
  Sampler sampler;

  // One step's; sized at start.
  std::vector<float> logits;  // [max_running, vocab_size]
  std::vector<StepItem> items;
  std::vector<Share> shares;
  std::vector<StepResult> results;

  void Retire(Entry& entry);
  void CancelWhereAsked();
  void Admit();
  void AddItem(Answer& answer, int32_t n_tokens);
  void PlanStep();
  Status RunStep();
};

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
}

Scheduler::~Scheduler() {
  for (const Entry& entry : impl_->running) {
    if (entry.answer->owns_sequence()) {
      (void)impl_->engine.ReleaseSequence(entry.answer->sequence());
    }
  }
}

Result<std::unique_ptr<Scheduler>> Scheduler::Create(Engine& engine,
                                                     const SchedulerOptions& options) {
  SchedulerOptions resolved = options;
  if (options.max_running < 0 || options.max_running > engine.max_sequences()) {
    return InvalidArgument(StrCat("max_running is ", options.max_running, ", must be in [0, ",
                                  engine.max_sequences(), "], the engine's sequences"));
  }
  if (options.prefill_chunk < 0) {
    return InvalidArgument(
        StrCat("prefill_chunk is ", options.prefill_chunk, ", must not be negative"));
  }
  if (resolved.max_running == 0) resolved.max_running = engine.max_sequences();
  if (resolved.prefill_chunk == 0) resolved.prefill_chunk = engine.max_batch_tokens();
  return std::unique_ptr<Scheduler>(new Scheduler(std::make_unique<Impl>(engine, resolved)));
}

Result<int64_t> Scheduler::Submit(GenerateRequest request) {
  Engine& engine = impl_->engine;
  COLIBRI_RETURN_IF_ERROR(Answer::Check(engine, request, engine.max_context()));
  auto answer = std::make_unique<Answer>(engine, std::move(request), engine.max_context());
  const int32_t n_pages = PagesFor(answer->max_tokens());
  const KvCache& kv = engine.kv_cache();
  if (n_pages > kv.n_pages()) {
    return ResourceExhausted(
        StrCat("prompt and answer of ", answer->max_tokens(), " tokens need ", n_pages, " pages (",
               FormatBytes(static_cast<uint64_t>(n_pages) * kv.page_bytes()), "), the cache has ",
               kv.n_pages(), " (",
               FormatBytes(static_cast<uint64_t>(kv.n_pages()) * kv.page_bytes()), ")"));
  }
  const int64_t id = impl_->next_id++;
  impl_->waiting.push_back({id, std::move(answer)});
  return id;
}

Result<int64_t> Scheduler::SubmitOn(SequenceId sequence, GenerateRequest request) {
  Engine& engine = impl_->engine;
  const int32_t n_cached = engine.SequenceLength(sequence);
  if (n_cached < 0) return InvalidArgument(StrCat("there is no sequence ", sequence));
  const int32_t capacity = engine.SequenceCapacity(sequence);
  COLIBRI_RETURN_IF_ERROR(Answer::Check(engine, request, capacity));
  if (static_cast<size_t>(n_cached) >= request.prompt.size()) {
    return InvalidArgument(StrCat("sequence ", sequence, " holds ", n_cached,
                                  " tokens, the prompt has ", request.prompt.size(),
                                  ": at least one must be left to compute"));
  }
  auto answer = std::make_unique<Answer>(engine, std::move(request), capacity);
  answer->Start(sequence, /*owns_sequence=*/false, n_cached);
  const int64_t id = impl_->next_id++;
  impl_->waiting.push_back({id, std::move(answer)});
  return id;
}

void Scheduler::Impl::Retire(Entry& entry) {
  if (entry.answer->owns_sequence()) {
    const Status released = engine.ReleaseSequence(entry.answer->sequence());
    COLIBRI_CHECK(released.ok());
  }
  finished.emplace(entry.id, entry.answer->TakeResult());
}

void Scheduler::Impl::CancelWhereAsked() {
  const auto cancel = [this](Entry& entry) {
    if (!entry.answer->cancelled()) return false;
    entry.answer->Cancel();
    Retire(entry);
    return true;
  };
  std::erase_if(running, cancel);
  std::erase_if(waiting, cancel);
}

void Scheduler::Impl::Admit() {
  while (!waiting.empty() && running.size() < static_cast<size_t>(max_running)) {
    Entry& entry = waiting.front();
    if (entry.answer->sequence() < 0) {
      auto sequence = engine.CreateSequence(entry.answer->max_tokens());
      if (!sequence.ok()) {
        // Others will give pages back. Where none of ours runs, whoever holds them is not ours to
        // wait for.
        if (running.empty()) {
          entry.answer->Fail(std::move(sequence).status());
          Retire(entry);
          waiting.pop_front();
          continue;
        }
        return;
      }
      entry.answer->Start(*sequence, /*owns_sequence=*/true, 0);
    }
    running.push_back(std::move(entry));
    waiting.pop_front();
  }
}

void Scheduler::Impl::AddItem(Answer& answer, int32_t n_tokens) {
  const auto pending = answer.pending();
  const bool last = static_cast<size_t>(n_tokens) == pending.size();
  items.push_back({.sequence = answer.sequence(),
                   .tokens = pending.first(static_cast<size_t>(n_tokens)),
                   .want = last ? LogitsWanted::kLast : LogitsWanted::kNone});
  shares.push_back({.answer = &answer, .wants_logits = last});
}

void Scheduler::Impl::PlanStep() {
  items.clear();
  shares.clear();
  int32_t left = engine.max_batch_tokens();
  // Every running answer's next token; those that a small step leaves out come first in the next.
  const size_t n = running.size();
  next_decode %= n;
  size_t i = 0;
  for (; i < n && left > 0; ++i) {
    Answer& answer = *running[(next_decode + i) % n].answer;
    if (!answer.is_decoding()) continue;
    AddItem(answer, 1);
    --left;
  }
  next_decode += i;
  // Then prompts, oldest first.
  for (const Entry& entry : running) {
    if (left == 0) break;
    if (entry.answer->is_decoding()) continue;
    const auto pending = static_cast<int32_t>(entry.answer->pending().size());
    const int32_t chunk = std::min({pending, prefill_chunk, left});
    AddItem(*entry.answer, chunk);
    left -= chunk;
  }
}

Status Scheduler::Impl::RunStep() {
  COLIBRI_RETURN_IF_ERROR(engine.Step(items, {.logits = logits, .results = results}).status());
  const auto vocab = static_cast<size_t>(engine.vocab_size());
  for (size_t i = 0; i < items.size(); ++i) {
    Answer& answer = *shares[i].answer;
    if (!results[i].status.ok()) {
      answer.Fail(std::move(results[i].status));
      continue;
    }
    answer.Advance(static_cast<int32_t>(items[i].tokens.size()));
    if (!shares[i].wants_logits) continue;
    const auto row = static_cast<size_t>(results[i].first_logits_row);
    answer.TakeLogits(std::span(logits).subspan(row * vocab, vocab), sampler);
  }
  return Status();
}

Result<bool> Scheduler::Step() {
  Impl& s = *impl_;
  s.CancelWhereAsked();
  s.Admit();
  if (s.running.empty()) return false;
  s.PlanStep();
  COLIBRI_RETURN_IF_ERROR(s.RunStep());
  std::erase_if(s.running, [&s](Entry& entry) {
    if (!entry.answer->done()) return false;
    s.Retire(entry);
    return true;
  });
  return !s.running.empty() || !s.waiting.empty();
}

bool Scheduler::Done(int64_t request) const {
  return impl_->finished.contains(request);
}

GenerateResult Scheduler::TakeResult(int64_t request) {
  const auto found = impl_->finished.find(request);
  COLIBRI_CHECK(found != impl_->finished.end());
  GenerateResult result = std::move(found->second);
  impl_->finished.erase(found);
  return result;
}

void Scheduler::Cancel(int64_t request) {
  const auto cancel = [this, request](Entry& entry) {
    if (entry.id != request) return false;
    entry.answer->Cancel();
    impl_->Retire(entry);
    return true;
  };
  std::erase_if(impl_->running, cancel);
  std::erase_if(impl_->waiting, cancel);
}

int32_t Scheduler::n_running() const {
  return static_cast<int32_t>(impl_->running.size());
}
int32_t Scheduler::n_waiting() const {
  return static_cast<int32_t>(impl_->waiting.size());
}

Result<std::vector<GenerateResult>> RunBatch(Engine& engine, std::vector<GenerateRequest> requests,
                                             const SchedulerOptions& options) {
  COLIBRI_ASSIGN_OR_RETURN(auto scheduler, Scheduler::Create(engine, options));
  std::vector<GenerateResult> results(requests.size());
  std::vector<std::pair<int64_t, size_t>> submitted;
  for (size_t i = 0; i < requests.size(); ++i) {
    results[i].n_prompt = static_cast<int32_t>(requests[i].prompt.size());
    auto id = scheduler->Submit(std::move(requests[i]));
    if (id.ok()) {
      submitted.emplace_back(*id, i);
    } else {
      results[i].status = std::move(id).status();
    }
  }
  for (bool more = !submitted.empty(); more;) {
    COLIBRI_ASSIGN_OR_RETURN(more, scheduler->Step());
  }
  for (const auto& [id, i] : submitted) results[i] = scheduler->TakeResult(id);
  return results;
}

}  // namespace colibri
