#include "moe/ffn_probe.h"

#include <algorithm>

#include "base/finite.h"

namespace colibri {
namespace {

constexpr int kThread = 0;  // whose scratch is used

// A piece of a product of a group: some rows of the matrix for some of the tokens.
struct Piece {
  int32_t first_row, n_rows;
  int32_t first_token, n_tokens;
};

// Calls fn(piece) until it returns a fault.
template <typename F>
FfnFault ForEachPiece(int32_t rows, int32_t n_tokens, F&& fn) {
  for (int32_t token = 0; token < n_tokens; token += kTaskTokens) {
    for (int32_t row = 0; row < rows; row += kTaskRows) {
      const Piece piece = {row, std::min(kTaskRows, rows - row), token,
                           std::min(kTaskTokens, n_tokens - token)};
      const FfnFault fault = fn(piece);
      if (fault.step != FfnStep::kNone) return fault;
    }
  }
  return {};
}

// tile [kTaskTokens, kTaskRows]
FfnFault LookAt(FfnStep step, const ExpertGroup& group, const Piece& piece, const float* tile) {
  for (int32_t t = 0; t < piece.n_tokens; ++t) {
    const float* const row = tile + static_cast<size_t>(t) * kTaskRows;
    for (int32_t r = 0; r < piece.n_rows; ++r) {
      if (AllFinite(row + r, 1)) continue;
      const int32_t i = piece.first_token + t;
      return {step, group.token_rows == nullptr ? i : group.token_rows[i], piece.first_row + r};
    }
  }
  return {};
}

void Compute(const KernelTable& kernels, const MatrixView& w, const float* bias,
             const Activations& x, const int32_t* x_rows, const Piece& piece, float* tile,
             const ThreadScratch& scratch) {
  ProductArgs args;
  args.w = &w;
  args.first_row = piece.first_row;
  args.n_rows = piece.n_rows;
  args.x = x_rows == nullptr ? x.From(piece.first_token) : x;
  args.x_rows = x_rows == nullptr ? nullptr : x_rows + piece.first_token;
  args.n_tokens = piece.n_tokens;
  args.out = tile;
  args.out_stride = kTaskRows;
  args.bias = bias == nullptr ? nullptr : bias + piece.first_row;
  Multiply(kernels, args, scratch.of(kThread));
}

}  // namespace

FfnFault ProbeGateUp(const KernelTable& kernels, const ExpertGroup& group,
                     const GatedActivationArgs& activation, const Activations& x,
                     const ThreadScratch& scratch) {
  const FfnWeights& w = *group.weights;
  float* const gate = scratch.tile(kThread, 1);
  float* const up = scratch.tile(kThread, 2);
  return ForEachPiece(w.gate.rows, group.n_tokens, [&](const Piece& piece) {
    Compute(kernels, w.gate, w.gate_bias, x, group.token_rows, piece, gate, scratch);
    FfnFault fault = LookAt(FfnStep::kGate, group, piece, gate);
    if (fault.step != FfnStep::kNone) return fault;
    Compute(kernels, w.up, w.up_bias, x, group.token_rows, piece, up, scratch);
    fault = LookAt(FfnStep::kUp, group, piece, up);
    if (fault.step != FfnStep::kNone) return fault;
    for (int32_t t = 0; t < piece.n_tokens; ++t) {
      float* const row = gate + static_cast<size_t>(t) * kTaskRows;
      kernels.gated_activation(activation, row, up + static_cast<size_t>(t) * kTaskRows,
                               static_cast<size_t>(piece.n_rows), row);
    }
    return LookAt(FfnStep::kActivation, group, piece, gate);
  });
}

FfnFault ProbeDown(const KernelTable& kernels, const ExpertGroup& group, GatedRows gated,
                   const ThreadScratch& scratch) {
  const FfnWeights& w = *group.weights;
  float* const tile = scratch.tile(kThread, 1);
  return ForEachPiece(w.down.rows, group.n_tokens, [&](const Piece& piece) {
    Compute(kernels, w.down, w.down_bias, gated.From(group.first_row), nullptr, piece, tile,
            scratch);
    return LookAt(FfnStep::kDown, group, piece, tile);
  });
}

}  // namespace colibri
