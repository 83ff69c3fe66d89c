#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "engine/engine.h"
#include "platform/huge_pages.h"
#include "platform/thread_pool.h"

namespace colibri {
namespace {

struct OptionRange {
  std::string_view name;
  int64_t value;
  int64_t low, high;
};

Status CheckOptions(const EngineOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 30;  // token counts and their products with small numbers
                                               // stay within 32 and 64 bits
  for (const OptionRange& range : {
           OptionRange{"n_threads", options.n_threads, 0, ThreadPool::kMaxThreads},
           OptionRange{"max_context", options.max_context, 0, kMost},
           OptionRange{"rope_context", options.rope_context, 0, kMost},
           OptionRange{"max_batch_tokens", options.max_batch_tokens, 1, 1 << 20},
           OptionRange{"max_sequences", options.max_sequences, 1, 1 << 20},
       }) {
    if (range.value < range.low || range.value > range.high) {
      return InvalidArgument(StrCat(range.name, " is ", range.value, ", must be in [", range.low,
                                    ", ", range.high, "]"));
    }
  }
  return Status();
}

// A step has a slot for each token and each expert that it is routed to, numbered with 32 bits.
Status CheckSlots(const ModelConfig& config, int32_t max_batch_tokens) {
  int64_t n_selected = 0;
  for (const LayerPlan& layer : config.layers) {
    n_selected = std::max<int64_t>(n_selected, layer.ffn.router.n_selected);
  }
  const int64_t most = std::numeric_limits<int32_t>::max() / (n_selected + 1);
  if (max_batch_tokens <= most) return Status();
  return InvalidArgument(StrCat("max_batch_tokens is ", max_batch_tokens, ", a model with ",
                                n_selected, " experts a token takes at most ", most));
}

std::string Row(std::string_view name, uint64_t bytes, std::string_view remark) {
  std::string row = StrCat("  ", name);
  row.resize(std::max<size_t>(row.size(), 12), ' ');
  const std::string size = FormatBytes(bytes);
  row.append(size.size() < 10 ? 10 - size.size() : 0, ' ');
  return StrCat(row, size, remark.empty() ? "" : "  ", remark);
}

}  // namespace

std::string MemoryPlan::ToString() const {
  return StrCat(
      Row("weights", weight_bytes, ""), "\n",
      Row("KV cache", kv_bytes,
          StrCat(KvTypeName(options.kv_type), ", ", n_pages, " pages of ", kPageTokens,
                 " positions, at most ", options.max_context, " a sequence, ",
                 options.max_sequences, " sequences")),
      "\n",
      Row("scratch", scratch_bytes,
          StrCat(options.max_batch_tokens, " tokens a step, ", options.n_threads, " threads")),
      "\n",
      Row("loading", loading_bytes,
          StrCat("while weights are read, ", options.n_threads, " threads")),
      "\n", Row("total", total_bytes(), ""), "\n",
      Row("budget", budget_bytes,
          options.memory_budget_bytes > 0 ? "as asked for"
          : hugetlb_bytes > 0 ? "what the system has available, with huge pages set aside"
                              : "what the system has available"));
}

Result<MemoryPlan> PlanMemory(const ModelPlan& model, const EngineOptions& options,
                              const Log& log) {
  COLIBRI_RETURN_IF_ERROR(CheckOptions(options));
  MemoryPlan plan;
  plan.options = options;
  EngineOptions& resolved = plan.options;
  if (resolved.n_threads == 0) {
    resolved.n_threads = std::min(DefaultThreadCount(), ThreadPool::kMaxThreads);
  }
  COLIBRI_RETURN_IF_ERROR(CheckSlots(model.config, resolved.max_batch_tokens));
  const int32_t model_context = model.config.max_positions;
  if (model_context > 0 && options.max_context > model_context) {
    return InvalidArgument(StrCat("max_context is ", options.max_context,
                                  ", the model was made for ", model_context, " positions"));
  }
  if (resolved.max_context == 0) {
    resolved.max_context =
        model_context > 0 ? std::min(model_context, kDefaultContext) : kDefaultContext;
  }
  // Before memory may shorten the context: what it leaves must not decide any number of the model.
  if (resolved.rope_context == 0) resolved.rope_context = resolved.max_context;
  plan.weight_bytes = model.weight_bytes;
  plan.loading_bytes = model.loading_bytes * static_cast<uint64_t>(resolved.n_threads);
  // What the administrator set aside for huge pages is no longer available memory, and Arena takes
  // it where it suffices for all weights.
  const uint64_t pool = FreeHugetlbBytes({});
  if (pool >= kHugePageBytes && plan.weight_bytes <= pool - kHugePageBytes)
    plan.hugetlb_bytes = plan.weight_bytes;
  plan.budget_bytes = options.memory_budget_bytes > 0 ? options.memory_budget_bytes
                                                      : AvailableMemoryBytes() + plan.hugetlb_bytes;
  // Beside the forward pass: a row of logits for every answer, and the sampler's five.
  plan.scratch_bytes = Forward::ScratchBytes(model.config, resolved.n_threads,
                                             resolved.max_batch_tokens, resolved.max_context) +
                       (static_cast<uint64_t>(resolved.max_sequences) + 5) *
                           static_cast<uint64_t>(model.config.vocab_size) * sizeof(float);

  // The cache: what was asked for, else what all sequences could use, within half of what is left;
  // a single sequence of an explicit length may take all of it.
  const KvLayout layout = MakeKvLayout(model.config, resolved.kv_type);
  const uint64_t page_bytes = std::max<uint64_t>(layout.page_bytes, 1);
  const uint64_t slots_bytes = KvCache::Bytes(layout, 0, resolved.max_sequences);
  const uint64_t fixed = plan.weight_bytes + plan.scratch_bytes + slots_bytes;
  const uint64_t left = plan.budget_bytes > fixed ? plan.budget_bytes - fixed : 0;
  const auto one_sequence = static_cast<uint64_t>(PagesFor(resolved.max_context));
  const uint64_t all_sequences = one_sequence * static_cast<uint64_t>(resolved.max_sequences);
  uint64_t n_pages = 0;
  if (options.kv_cache_bytes > 0) {
    n_pages = std::min(options.kv_cache_bytes / page_bytes, all_sequences);
  } else {
    n_pages = std::min(all_sequences, left / 2 / page_bytes);
    if (options.max_context > 0) n_pages = std::max(n_pages, one_sequence);
    n_pages = std::max<uint64_t>(n_pages, 1);
  }
  n_pages = std::min<uint64_t>(n_pages, std::numeric_limits<int32_t>::max());
  if (n_pages == 0 || (options.max_context > 0 && n_pages < one_sequence)) {
    return ResourceExhausted(StrCat("kv_cache_bytes of ", FormatBytes(options.kv_cache_bytes),
                                    " is less than ", one_sequence, " pages of ",
                                    FormatBytes(page_bytes), ", which one sequence of ",
                                    resolved.max_context, " positions takes"));
  }
  const bool is_short = n_pages < one_sequence;
  if (is_short) resolved.max_context = static_cast<int32_t>(n_pages) * kPageTokens;
  plan.n_pages = static_cast<int32_t>(n_pages);
  plan.kv_bytes = KvCache::Bytes(layout, plan.n_pages, resolved.max_sequences);
  resolved.kv_cache_bytes = plan.kv_bytes;

  if (plan.kv_bytes > plan.budget_bytes || plan.total_bytes() > plan.budget_bytes) {
    return ResourceExhausted(StrCat("the model does not fit into the memory:\n", plan.ToString()));
  }
  std::string context = StrCat("sequences hold up to ", resolved.max_context, " positions");
  if (model_context > 0) context += StrCat("; the model was made for ", model_context);
  if (is_short) {
    log.Warning(
        StrCat(context, ", for which the cache's ", FormatBytes(plan.kv_bytes), " do not suffice"));
  } else if (resolved.max_context < model_context) {
    log.Info(context);
  }
  return plan;
}

}  // namespace colibri
