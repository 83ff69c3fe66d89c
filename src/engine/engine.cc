#include "engine/engine.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/check.h"
#include "base/strings.h"
#include "engine/load_tokenizer.h"
#include "kernels/select.h"
#include "model/execution_context.h"
#include "platform/thread_pool.h"
#include "text/tokenizer.h"

namespace colibri {
namespace {

struct Sequence {
  SequenceId id = -1;  // -1: this place is free
  SequenceMemory memory;
  int32_t length = 0;    // tokens in the cache
  int32_t capacity = 0;  // tokens that it may hold
  bool in_step = false;
};

// What COLIBRI_PIN asks for.
Result<PinMode> PinModeFromEnvironment() {
  const char* const value = std::getenv("COLIBRI_PIN");
  if (value == nullptr || *value == '\0') return PinMode::kAuto;
  const std::string_view mode = value;
  if (mode == "on") return PinMode::kOn;
  if (mode == "off") return PinMode::kOff;
  return InvalidArgument(StrCat("COLIBRI_PIN is \"", mode, "\", must be on or off"));
}

// The machine as an engine sees it, and where its threads go.
struct Threads {
  Topology topology;
  ThreadPlacement placement;
  PinMode mode = PinMode::kAuto;

  // The system's numbers of the nodes that have threads.
  std::vector<int32_t> SystemNodes() const {
    const auto n = static_cast<ptrdiff_t>(placement.n_nodes());
    return {topology.system_node.begin(), topology.system_node.begin() + n};
  }
};

Result<Threads> PlaceEngineThreads(const EngineOptions& options) {
  Threads threads;
  if (options.pin) {
    threads.mode = *options.pin;
  } else {
    COLIBRI_ASSIGN_OR_RETURN(threads.mode, PinModeFromEnvironment());
  }
  threads.topology = options.topology ? *options.topology : DetectTopology(AllowedCpus());
  const int n_usable = DefaultThreadCount();
  // PlanMemory refuses a number that is out of range.
  const int n_threads = options.n_threads > 0 ? options.n_threads : n_usable;
  threads.placement = PlaceThreads(threads.topology, n_threads, n_usable, threads.mode);
  if (threads.placement.n_nodes() > ThreadPool::kMaxNodes)
    std::fill(threads.placement.node.begin(), threads.placement.node.end(), 0);
  return threads;
}

void LogThreads(const Threads& threads, int n_threads, const Log& log) {
  const bool pinned = threads.placement.pinned();
  if (threads.mode == PinMode::kOn && !pinned) {
    log.Warning(StrCat("threads are not pinned: ", n_threads, " of them have ",
                       threads.topology.cpus.size(), " CPUs"));
  }
  log.Info(StrCat("threads: ", n_threads, pinned ? ", each pinned to a CPU" : ", not pinned",
                  ", on ", threads.placement.n_nodes(), " of ", threads.topology.n_nodes(),
                  " memory nodes"));
}

// Weights of which every token reads much: small pages cost misses of the TLB there.
constexpr uint64_t kManyBytes = uint64_t{256} << 20;

void LogWeightPages(const Model& model, const Log& log) {
  const PageUsage pages = model.MeasureWeightPages();
  const std::string line = StrCat("weights: ", pages.ToString());
  if (pages.refusal.empty() || pages.bytes < kManyBytes) {
    log.Info(line);
  } else {
    log.Warning(line);
  }
  if (!model.chose_nodes())
    log.Warning("the system refused to place memory: threads may read other nodes' memory");
}

}  // namespace

struct Engine::Impl {
  MemoryPlan plan;
  std::string chat_template;
  const KernelTable* kernels = nullptr;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<ExecutionContext> context;
  std::unique_ptr<Model> model;
  std::unique_ptr<KvCache> kv;
  std::unique_ptr<Forward> forward;
  std::unique_ptr<const Tokenizer> tokenizer;
  Status tokenizer_status;
  std::vector<int32_t> eos_ids;

  // A sequence's id is generation * max_sequences + its place.
  std::vector<Sequence> sequences;  // [max_sequences]
  int64_t generation = 0;

  // One step's batch; sized at start.
  std::vector<int32_t> tokens;            // [max_batch_tokens]
  std::vector<int32_t> logit_rows;        // [max_batch_tokens]
  std::vector<SequenceSlice> slices;      // [max_sequences]
  std::vector<int32_t> failed_layer;      // [max_sequences]
  std::vector<const StepItem*> computed;  // [max_sequences] item of each slice
  std::vector<StepResult*> computed_result;

  void CollectEosIds();
  Sequence* Find(SequenceId id) {
    if (id < 0) return nullptr;
    Sequence& sequence = sequences[static_cast<size_t>(id) % sequences.size()];
    return sequence.id == id ? &sequence : nullptr;
  }
  Status CheckItem(const StepItem& item);
  // The error of a slice of the step that failed in a layer, with the place where it did.
  Status LayerFailure(const Sequence& sequence, size_t slice, int32_t layer);
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Create(const std::string& path,
                                               const EngineOptions& options, const Log& log) {
  COLIBRI_ASSIGN_OR_RETURN(ModelFiles files, OpenModelFiles(path, log));
  return Create(std::move(files), options, log);
}

Result<std::unique_ptr<Engine>> Engine::Create(ModelFiles files, const EngineOptions& options,
                                               const Log& log) {
  auto impl = std::make_unique<Impl>();
  if (options.forced_isa.empty()) {
    COLIBRI_ASSIGN_OR_RETURN(impl->kernels, SelectKernelsFromEnvironment());
  } else {
    COLIBRI_ASSIGN_OR_RETURN(impl->kernels, SelectKernels(options.forced_isa));
  }
  if (options.check_chat_template) {
    COLIBRI_RETURN_IF_ERROR(options.check_chat_template(files.chat_template));
  }
  COLIBRI_ASSIGN_OR_RETURN(const Threads threads, PlaceEngineThreads(options));
  COLIBRI_ASSIGN_OR_RETURN(const ModelPlan model_plan,
                           PlanModel(files, log, options.activations, threads.placement.n_nodes()));
  COLIBRI_ASSIGN_OR_RETURN(impl->plan, PlanMemory(model_plan, options, log));
  const EngineOptions& resolved = impl->plan.options;
  std::istringstream table(impl->plan.ToString());
  for (std::string row; std::getline(table, row);) log.Info(row);

  COLIBRI_ASSIGN_OR_RETURN(impl->pool, ThreadPool::Create(resolved.n_threads, threads.placement.cpu,
                                                          threads.placement.node));
  LogThreads(threads, resolved.n_threads, log);
  impl->context.reset(new ExecutionContext{*impl->pool, *impl->kernels});
  const ThreadPool::OwnerScope owner(*impl->pool);
  // The plan has said already what there is to say about the configuration.
  COLIBRI_ASSIGN_OR_RETURN(impl->model, Model::Load(files, *impl->pool,
                                                    {.activations = resolved.activations,
                                                     .system_nodes = threads.SystemNodes(),
                                                     .progress = resolved.load_progress},
                                                    Log()));
  LogWeightPages(*impl->model, log);
  COLIBRI_ASSIGN_OR_RETURN(KvCache kv,
                           KvCache::Create(MakeKvLayout(impl->model->config(), resolved.kv_type),
                                           impl->plan.n_pages, resolved.max_sequences));
  impl->kv = std::make_unique<KvCache>(std::move(kv));
  COLIBRI_ASSIGN_OR_RETURN(impl->forward,
                           Forward::Create(*impl->model, *impl->context, resolved.max_batch_tokens,
                                           resolved.max_context, resolved.rope_context));

  // A model without a tokenizer, or with one of a kind that isn't known here, still computes.
  auto tokenizer = LoadTokenizer(files);
  if (tokenizer.ok()) {
    impl->tokenizer = std::move(tokenizer).value();
  } else {
    impl->tokenizer_status = std::move(tokenizer).status();
    if (impl->tokenizer_status.code() != StatusCode::kNotFound) {
      log.Warning(StrCat("no text, token ids only: ", impl->tokenizer_status.message()));
    }
  }
  impl->chat_template = std::move(files.chat_template);
  impl->CollectEosIds();

  const auto n_sequences = static_cast<size_t>(resolved.max_sequences);
  impl->sequences.resize(n_sequences);
  impl->tokens.reserve(static_cast<size_t>(resolved.max_batch_tokens));
  impl->logit_rows.reserve(static_cast<size_t>(resolved.max_batch_tokens));
  impl->slices.reserve(n_sequences);
  impl->computed.reserve(n_sequences);
  impl->computed_result.reserve(n_sequences);
  impl->failed_layer.resize(n_sequences);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

void Engine::Impl::CollectEosIds() {
  std::vector<int32_t>& ids = eos_ids;
  ids = model->config().eos_token_ids;
  if (tokenizer != nullptr) {
    const SpecialTokenIds& special = tokenizer->special_ids();
    for (const auto& id : {special.eos, special.eot}) {
      if (id) ids.push_back(*id);
    }
    // A ChatML template ends every turn with this token, whatever the files call their end.
    constexpr std::string_view kChatMlEnd = "<|im_end|>";
    const auto id = tokenizer->TokenToId(kChatMlEnd);
    if (id && chat_template.find(kChatMlEnd) != std::string::npos) ids.push_back(*id);
  }
  const int32_t vocab_size = model->config().vocab_size;
  std::erase_if(ids, [vocab_size](int32_t id) { return id < 0 || id >= vocab_size; });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

Result<SequenceId> Engine::CreateSequence(int32_t max_tokens) {
  if (max_tokens < 1 || max_tokens > max_context()) {
    return InvalidArgument(StrCat("a sequence of ", max_tokens, " tokens, must be in [1, ",
                                  max_context(), "], the engine's context"));
  }
  COLIBRI_ASSIGN_OR_RETURN(SequenceMemory memory, impl_->kv->Reserve(max_tokens));
  impl_->kv->ClearRecurrent(memory);
  // Slots of recurrent state and places number alike.
  const auto place = std::find_if(impl_->sequences.begin(), impl_->sequences.end(),
                                  [](const Sequence& s) { return s.id < 0; });
  COLIBRI_CHECK(place != impl_->sequences.end());
  const auto index = place - impl_->sequences.begin();
  const SequenceId id = impl_->generation++ * static_cast<int64_t>(impl_->sequences.size()) + index;
  *place = {.id = id, .memory = std::move(memory), .capacity = max_tokens};
  return id;
}

Status Engine::TruncateSequence(SequenceId id, int32_t n_tokens) {
  Sequence* sequence = impl_->Find(id);
  if (sequence == nullptr) return NotFound(StrCat("there is no sequence ", id));
  if (n_tokens < 0 || n_tokens > sequence->length) {
    return InvalidArgument(StrCat("sequence ", id, " can't be cut to ", n_tokens,
                                  " tokens: it has ", sequence->length));
  }
  if (n_tokens == sequence->length) return Status();
  if (n_tokens > 0 && impl_->kv->recurrent_floats() > 0) {
    return InvalidArgument(StrCat("sequence ", id, " can't be cut to ", n_tokens, " of ",
                                  sequence->length, " tokens: the model's state is recurrent"));
  }
  if (n_tokens == 0) impl_->kv->ClearRecurrent(sequence->memory);
  sequence->length = n_tokens;
  return Status();
}

Status Engine::ReleaseSequence(SequenceId id) {
  Sequence* sequence = impl_->Find(id);
  if (sequence == nullptr) return NotFound(StrCat("there is no sequence ", id));
  impl_->kv->Release(sequence->memory);
  *sequence = {};
  return Status();
}

int32_t Engine::SequenceLength(SequenceId id) const {
  const Sequence* sequence = impl_->Find(id);
  return sequence == nullptr ? -1 : sequence->length;
}

int32_t Engine::SequenceCapacity(SequenceId id) const {
  const Sequence* sequence = impl_->Find(id);
  return sequence == nullptr ? -1 : sequence->capacity;
}

Status Engine::Impl::CheckItem(const StepItem& item) {
  const Sequence* sequence = Find(item.sequence);
  if (sequence == nullptr) return InvalidArgument(StrCat("there is no sequence ", item.sequence));
  if (sequence->in_step) {
    return InvalidArgument(StrCat("sequence ", item.sequence, " stands twice in one step"));
  }
  if (item.tokens.empty()) {
    return InvalidArgument(StrCat("no tokens for sequence ", item.sequence));
  }
  if (item.tokens.size() > static_cast<size_t>(sequence->capacity - sequence->length)) {
    return InvalidArgument(
        StrCat("sequence ", item.sequence, " holds ", sequence->length, " tokens of at most ",
               sequence->capacity, ": ", item.tokens.size(), " more are ",
               sequence->length + static_cast<int64_t>(item.tokens.size()) - sequence->capacity,
               " too many"));
  }
  const int32_t vocab_size = model->config().vocab_size;
  for (size_t i = 0; i < item.tokens.size(); ++i) {
    if (item.tokens[i] < 0 || item.tokens[i] >= vocab_size) {
      return InvalidArgument(StrCat("token ", i, " for sequence ", item.sequence, " has id ",
                                    item.tokens[i], ", must be in [0, ", vocab_size, ")"));
    }
  }
  return Status();
}

Status Engine::Impl::LayerFailure(const Sequence& sequence, size_t slice, int32_t layer) {
  const SequenceSlice& failed = slices[slice];
  int32_t first = 0;
  for (size_t i = 0; i < slice; ++i) first += slices[i].n_tokens;
  std::vector<int32_t> rows;
  for (const int32_t row : logit_rows) {
    if (row >= first && row < first + failed.n_tokens) rows.push_back(row - first);
  }
  const Batch batch = {.tokens = std::span(tokens).subspan(static_cast<size_t>(first),
                                                           static_cast<size_t>(failed.n_tokens)),
                       .slices = {&failed, 1},
                       .logit_rows = rows};
  const FailurePlace place = forward->FindFailure(batch, kv->storage(), layer);
  const int32_t n_layers = model->config().n_layers;
  std::string where =
      layer < n_layers ? StrCat("layer ", layer, " of ", n_layers) : std::string("the output head");
  if (!place.what.empty()) where += StrCat(", in ", place.what, ", at position ", place.position);
  return Internal(StrCat("sequence ", sequence.id, ": a value ceased to be finite in ", where,
                         " (of positions ", failed.position, " to ",
                         failed.position + failed.n_tokens - 1, ")"));
}

Result<StepSummary> Engine::Step(std::span<const StepItem> items, const StepOutput& output) {
  Impl& e = *impl_;
  const auto vocab = static_cast<size_t>(vocab_size());
  size_t n_tokens = 0, n_rows = 0;
  for (const StepItem& item : items) {
    n_tokens += item.tokens.size();
    if (item.want == LogitsWanted::kAll) n_rows += item.tokens.size();
    if (item.want == LogitsWanted::kLast) n_rows += 1;
  }
  if (n_tokens > static_cast<size_t>(max_batch_tokens())) {
    return InvalidArgument(
        StrCat("a step of ", n_tokens, " tokens, at most ", max_batch_tokens(), " are possible"));
  }
  if (output.results.size() < items.size()) {
    return InvalidArgument(
        StrCat("room for ", output.results.size(), " results, ", items.size(), " are needed"));
  }
  if (output.logits.size() / vocab < n_rows) {
    return InvalidArgument(StrCat("room for ", output.logits.size() / vocab, " rows of ", vocab,
                                  " logits, ", n_rows, " are needed"));
  }
  const size_t hidden_row =
      (static_cast<size_t>(config().n_layers) + 1) * static_cast<size_t>(config().hidden);
  if (!output.layer_hidden.empty() && output.layer_hidden.size() < hidden_row * n_tokens) {
    return InvalidArgument(StrCat("room for ", output.layer_hidden.size(), " hidden values, ",
                                  hidden_row * n_tokens, " are needed"));
  }

  e.tokens.clear();
  e.logit_rows.clear();
  e.slices.clear();
  e.computed.clear();
  e.computed_result.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    const StepItem& item = items[i];
    StepResult& result = output.results[i];
    result = {.status = e.CheckItem(item)};
    if (!result.status.ok()) continue;
    Sequence& sequence = *e.Find(item.sequence);
    sequence.in_step = true;
    const auto n = static_cast<int32_t>(item.tokens.size());
    result.first_token_row = static_cast<int32_t>(e.tokens.size());
    result.first_logits_row = static_cast<int32_t>(e.logit_rows.size());
    result.n_logits_rows = item.want == LogitsWanted::kAll    ? n
                           : item.want == LogitsWanted::kLast ? 1
                                                              : 0;
    e.tokens.insert(e.tokens.end(), item.tokens.begin(), item.tokens.end());
    for (int32_t row = 0; row < result.n_logits_rows; ++row) {
      e.logit_rows.push_back(static_cast<int32_t>(e.tokens.size()) - result.n_logits_rows + row);
    }
    e.slices.push_back({.n_tokens = n,
                        .position = sequence.length,
                        .pages = sequence.memory.pages,
                        .recurrent_slot = sequence.memory.slot});
    e.computed.push_back(&item);
    e.computed_result.push_back(&result);
  }
  if (e.slices.empty()) return StepSummary{};

  const size_t n_computed = e.tokens.size();
  const ThreadPool::OwnerScope owner(*e.pool);
  e.forward->Step({.tokens = e.tokens, .slices = e.slices, .logit_rows = e.logit_rows},
                  e.kv->storage(),
                  {.logits = output.logits.first(e.logit_rows.size() * vocab),
                   .layer_hidden = output.layer_hidden.empty()
                                       ? output.layer_hidden
                                       : output.layer_hidden.first(hidden_row * n_computed),
                   .failed_layer = std::span(e.failed_layer).first(e.slices.size())});

  for (size_t i = 0; i < e.slices.size(); ++i) {
    Sequence& sequence = *e.Find(e.computed[i]->sequence);
    sequence.in_step = false;
    if (e.failed_layer[i] < 0) {
      sequence.length += e.slices[i].n_tokens;
    } else {
      e.computed_result[i]->status = e.LayerFailure(sequence, i, e.failed_layer[i]);
      if (e.kv->recurrent_floats() > 0) {
        // The state has gone on with what failed, and there is no way back but to the start.
        e.kv->ClearRecurrent(sequence.memory);
        sequence.length = 0;
      }
    }
  }
  return StepSummary{.n_tokens = static_cast<int32_t>(n_computed)};
}

const Model& Engine::model() const {
  return *impl_->model;
}
const ModelConfig& Engine::config() const {
  return impl_->model->config();
}
int32_t Engine::vocab_size() const {
  return config().vocab_size;
}
int32_t Engine::max_context() const {
  return impl_->plan.options.max_context;
}
int32_t Engine::max_batch_tokens() const {
  return impl_->plan.options.max_batch_tokens;
}
int32_t Engine::max_sequences() const {
  return impl_->plan.options.max_sequences;
}
int32_t Engine::n_threads() const {
  return impl_->pool->n_threads();
}
bool Engine::threads_pinned() const {
  return impl_->pool->pinned();
}
const char* Engine::isa() const {
  return impl_->kernels->name;
}
const MemoryPlan& Engine::memory_plan() const {
  return impl_->plan;
}
const KvCache& Engine::kv_cache() const {
  return *impl_->kv;
}
const ForwardStats& Engine::stats() const {
  return impl_->forward->stats();
}
const std::string& Engine::chat_template() const {
  return impl_->chat_template;
}
const Tokenizer* Engine::tokenizer() const {
  return impl_->tokenizer.get();
}
const Status& Engine::tokenizer_status() const {
  return impl_->tokenizer_status;
}
const std::vector<int32_t>& Engine::eos_ids() const {
  return impl_->eos_ids;
}

bool Engine::IsEos(int32_t token) const {
  return std::binary_search(impl_->eos_ids.begin(), impl_->eos_ids.end(), token);
}

}  // namespace colibri
