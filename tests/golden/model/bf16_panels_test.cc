// Bfloat16 weights in panels are those of the file.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "model/model.h"
#include "support/assets.h"
#include "tensor/half.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

std::unique_ptr<Model> LoadNano(ThreadPool& pool, ActivationType activations) {
  const auto files = OpenModelFiles(testing::AssetsDir() + "/models/nano", Log());
  EXPECT_TRUE(files.ok()) << files.status().ToString();
  LoadOptions options;
  options.activations = activations;
  auto model = Model::Load(*files, pool, options, Log());
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return std::move(model).value();
}

void ExpectSameRows(const MatrixView& rows, const MatrixView& panels) {
  ASSERT_EQ(rows.dtype, DType::kBF16);
  ASSERT_EQ(rows.layout, Layout::kRows);
  ASSERT_EQ(panels.layout, Layout::kPanels);
  ASSERT_EQ(panels.input, ProductInput::kBFloat16);
  ASSERT_EQ(panels.rows, rows.rows);
  ASSERT_EQ(panels.cols, rows.cols);
  std::vector<float> row(static_cast<size_t>(rows.cols));
  for (int32_t r = 0; r < rows.rows; ++r) {
    UnpackPanelRow(panels.dtype, panels.row(r / kPanelRows * kPanelRows), r % kPanelRows,
                   panels.cols, row.data());
    for (int32_t c = 0; c < rows.cols; ++c) {
      uint16_t bits;
      std::memcpy(&bits, rows.row(r) + 2 * c, sizeof(bits));
      ASSERT_EQ(row[static_cast<size_t>(c)], BFloat16ToFloat(bits)) << r << " " << c;
    }
  }
}

TEST(Bf16Panels, HoldWhatTheFileSays) {
  COLIBRI_REQUIRE_ASSETS();
  const auto pool = ThreadPool::Create(2);
  const auto in_rows = LoadNano(**pool, ActivationType::kFloat32),
             in_panels = LoadNano(**pool, ActivationType::kInt8);
  const ModelWeights &a = in_rows->weights(), &b = in_panels->weights();
  ExpectSameRows(a.head.matrix, b.head.matrix);
  for (size_t l = 0; l < a.layers.size(); ++l) {
    ExpectSameRows(a.layers[l].attention.q.matrix, b.layers[l].attention.q.matrix);
    ExpectSameRows(a.layers[l].attention.o.matrix, b.layers[l].attention.o.matrix);
    for (size_t e = 0; e < a.layers[l].moe.experts.size(); ++e) {
      const FfnWeights &x = a.layers[l].moe.experts[e], &y = b.layers[l].moe.experts[e];
      ExpectSameRows(x.gate, y.gate);
      ExpectSameRows(x.up, y.up);
      ExpectSameRows(x.down, y.down);
    }
    // Nobody reads int8 groups here.
    EXPECT_FALSE(b.layers[l].attention_input.groups || b.layers[l].ffn_input.groups);
    EXPECT_TRUE(b.layers[l].attention_input.bf16 && b.layers[l].ffn_input.bf16);
    EXPECT_FALSE(a.layers[l].attention_input.bf16 || a.layers[l].ffn_input.bf16);
  }
}

}  // namespace
}  // namespace colibri
