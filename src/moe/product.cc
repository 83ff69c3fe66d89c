#include "moe/product.h"

#include <algorithm>

#include "base/check.h"

namespace colibri {
namespace {

// What panels have in common, whatever they are multiplied by.
void SetCommon(const ProductArgs& args, PanelProductArgs& panel) {
  panel.w = args.w->row(args.first_row);
  panel.n_rows = args.n_rows;
  panel.k = args.w->cols;
  panel.x_rows = args.x_rows;
  panel.n_tokens = args.n_tokens;
  panel.out = args.out;
  panel.out_stride = args.out_stride;
  panel.out_rows = args.out_rows;
  panel.bias = args.bias;
  panel.out_weight = args.out_weight;
  panel.next = args.next;
}

void MultiplyGroups(const KernelTable& kernels, const ProductArgs& args) {
  PanelMatMulArgs panel{};
  SetCommon(args, panel);
  panel.x = args.x.groups;
  panel.x_stride = args.x.group_stride;
  kernels.panel_matmul[static_cast<size_t>(args.w->dtype)](panel);
}

void MultiplyBf16(const KernelTable& kernels, const ProductArgs& args) {
  Bf16MatMulArgs panel{};
  SetCommon(args, panel);
  panel.x = args.x.bf16;
  panel.x_stride = args.x.bf16_stride;
  kernels.bf16_matmul[static_cast<size_t>(args.w->dtype)](panel);
}

void MultiplyFloats(const KernelTable& kernels, const ProductArgs& args) {
  FloatMatMulArgs panel{};
  SetCommon(args, panel);
  panel.x = args.x.rows;
  panel.x_stride = args.x.stride;
  kernels.float_matmul[static_cast<size_t>(args.w->dtype)](panel);
}

// Up to a tile of tokens from `first` on.
void MultiplyRows(const KernelTable& kernels, const ProductArgs& args, int32_t first,
                  int32_t n_tokens, const ProductScratch& scratch) {
  const bool direct = args.out_rows == nullptr && args.out_weight == nullptr;
  MatMulArgs matmul{};
  matmul.w = args.w->row(args.first_row);
  matmul.w_row_bytes = args.w->row_bytes;
  matmul.n_rows = args.n_rows;
  matmul.k = args.w->cols;
  matmul.x = args.x_rows == nullptr ? args.x.From(first).rows : args.x.rows;
  matmul.x_stride = args.x.stride;
  matmul.x_rows = args.x_rows == nullptr ? nullptr : args.x_rows + first;
  matmul.n_tokens = n_tokens;
  matmul.out = direct ? args.out + static_cast<size_t>(first) * args.out_stride : scratch.tile;
  matmul.out_stride = direct ? args.out_stride : static_cast<size_t>(kTaskRows);
  matmul.scratch = scratch.matmul;
  kernels.matmul[static_cast<size_t>(args.w->dtype)](matmul);

  const auto n_rows = static_cast<size_t>(args.n_rows);
  for (int32_t t = 0; t < n_tokens; ++t) {
    float* const product = matmul.out + static_cast<size_t>(t) * matmul.out_stride;
    if (args.bias != nullptr) {
      for (size_t r = 0; r < n_rows; ++r) product[r] += args.bias[r];
    }
    if (direct) continue;
    const int32_t row = args.out_rows == nullptr ? first + t : args.out_rows[first + t];
    float* const out = args.out + static_cast<size_t>(row) * args.out_stride;
    if (args.out_weight == nullptr) {
      std::copy_n(product, n_rows, out);
    } else {
      kernels.axpy(args.out_weight[first + t], product, n_rows, out);
    }
  }
}

}  // namespace

void Multiply(const KernelTable& kernels, const ProductArgs& args, const ProductScratch& scratch) {
  COLIBRI_CHECK(args.n_rows <= kTaskRows);
  if (args.w->input == ProductInput::kInt8Groups) return MultiplyGroups(kernels, args);
  if (args.w->input == ProductInput::kBFloat16) return MultiplyBf16(kernels, args);
  if (args.w->layout == Layout::kPanels) return MultiplyFloats(kernels, args);
  const bool direct = args.out_rows == nullptr && args.out_weight == nullptr;
  const int32_t step = direct ? args.n_tokens : kTaskTokens;
  for (int32_t first = 0; first < args.n_tokens; first += step)
    MultiplyRows(kernels, args, first, std::min(step, args.n_tokens - first), scratch);
}

}  // namespace colibri
