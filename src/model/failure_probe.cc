#include "model/failure_probe.h"

#include <cmath>
#include <limits>

#include "base/finite.h"
#include "base/strings.h"

namespace colibri {
namespace {

// The first token with a value whose magnitude is not below the limit, and its column.
struct Place {
  int32_t token = -1;
  size_t column = 0;
};
Place FindIn(const float* rows, int32_t n_tokens, size_t stride, size_t n, float limit) {
  for (int32_t t = 0; t < n_tokens; ++t) {
    const float* const row = rows + static_cast<size_t>(t) * stride;
    if (AllBelow(row, n, limit)) continue;
    for (size_t c = 0; c < n; ++c) {
      if (!AllBelow(row + c, 1, limit)) return {t, c};
    }
  }
  return {};
}
Place FindIn(const float* rows, int32_t n_tokens, size_t stride, size_t n) {
  return FindIn(rows, n_tokens, stride, n, std::numeric_limits<float>::infinity());
}

bool IsBad(const float* bias, size_t column) {
  return bias != nullptr && !std::isfinite(bias[column]);
}

}  // namespace

void FailureProbe::Note(std::string what, int32_t token) {
  if (found()) return;
  what_ = std::move(what);
  token_ = token;
}

std::string FailureProbe::NameOf(const void* weight) const {
  const std::string_view name = names_.Find(weight);
  return name.empty() ? "a weight without a name" : std::string(name);
}

void FailureProbe::LookAtProduct(const LinearWeights& weights, const float* rows, int32_t n_tokens,
                                 size_t stride) {
  if (found()) return;
  const Place place = FindIn(rows, n_tokens, stride, static_cast<size_t>(weights.matrix.rows));
  if (place.token < 0) return;
  NoteProduct(weights, rows + static_cast<size_t>(place.token) * stride, place.token);
}

void FailureProbe::NoteProduct(const LinearWeights& weights, const float* row, int32_t token) {
  const auto n = weights.bias == nullptr ? size_t{0} : static_cast<size_t>(weights.matrix.rows);
  const Place place = FindIn(row, 1, n, n);
  Note(place.token == 0 && IsBad(weights.bias, place.column)
           ? StrCat("the bias ", NameOf(weights.bias))
           : StrCat("the product with ", NameOf(weights.matrix.data)),
       token);
}

void FailureProbe::LookAtNorm(const NormWeights& norm, const float* rows, int32_t n_tokens,
                              size_t stride, int64_t n) {
  if (found()) return;
  const Place place = FindIn(rows, n_tokens, stride, static_cast<size_t>(n));
  if (place.token < 0) return;
  Note(norm.weight == nullptr           ? "the rotation of queries and keys"
       : IsBad(norm.bias, place.column) ? StrCat("the bias ", NameOf(norm.bias))
                                        : StrCat("the norm with ", NameOf(norm.weight)),
       place.token);
}

void FailureProbe::LookAtCached(const LinearWeights& weights, const float* rows, int32_t n_tokens,
                                size_t stride, size_t n, float limit) {
  if (found()) return;
  const Place place = FindIn(rows, n_tokens, stride, n, limit);
  if (place.token < 0) return;
  const float value = rows[static_cast<size_t>(place.token) * stride + place.column];
  const std::string from = NameOf(weights.matrix.data);
  Note(std::isfinite(value)
           ? StrCat("the cache, whose type is too small for the ", value, " of ", from)
           : StrCat("keys or values from ", from),
       place.token);
}

void FailureProbe::LookAtAttention(const AttentionCall& call, int32_t n_tokens, size_t n,
                                   const LinearWeights& q, const LinearWeights& k) {
  const size_t heads = call.sinks == nullptr ? 0 : static_cast<size_t>(call.n_heads);
  for (size_t h = 0; h < heads && !found(); ++h) {
    if (std::isfinite(call.sinks[h])) continue;
    const Place place = FindIn(call.out, n_tokens, n, n);
    if (place.token >= 0) return Note(StrCat("the sinks ", NameOf(call.sinks)), place.token);
  }
  LookAtRows(StrCat("attention between ", NameOf(q.matrix.data), " and ", NameOf(k.matrix.data)),
             call.out, n_tokens, n, n);
}

void FailureProbe::LookAtRows(std::string_view what, const float* rows, int32_t n_tokens,
                              size_t stride, size_t n) {
  if (found()) return;
  const Place place = FindIn(rows, n_tokens, stride, n);
  if (place.token >= 0) Note(std::string(what), place.token);
}

void FailureProbe::NoteFfn(const FfnFault& fault, const FfnWeights& weights, int64_t expert) {
  if (fault.step == FfnStep::kNone) return;
  struct Part {
    const MatrixView* matrix;
    const float* bias;
  };
  const Part parts[] = {{&weights.gate, weights.gate_bias},
                        {&weights.up, weights.up_bias},
                        {&weights.down, weights.down_bias}};
  const std::string of = expert < 0 ? std::string() : StrCat(" of expert ", expert);
  if (fault.step == FfnStep::kActivation) {
    return Note(StrCat("the activation behind ", NameOf(weights.gate.data), " and ",
                       NameOf(weights.up.data), of),
                fault.token);
  }
  const Part& part = parts[fault.step == FfnStep::kGate ? 0 : fault.step == FfnStep::kUp ? 1 : 2];
  Note(IsBad(part.bias, static_cast<size_t>(fault.row))
           ? StrCat("the bias ", NameOf(part.bias), of)
           : StrCat("the product with ", NameOf(part.matrix->data), of),
       fault.token);
}

}  // namespace colibri
