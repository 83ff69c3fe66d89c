// A gpt-oss folder whose experts are MXFP4, as openai/gpt-oss-20b is published: the small model of
// the goldens with random blocks for its experts. Every weight in memory, in rows and in panels,
// must be what the format's definition makes of the bytes of the file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "format/safetensors_writer.h"
#include "model/model.h"
#include "support/assets.h"
#include "tensor/dequantize.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

constexpr int kExperts = 8, kSize = 64;  // of the golden: hidden and intermediate size are equal

// Elements are pairs of nibbles, the low one first, 32 for each exponent.
struct Mxfp4Tensor {
  Mxfp4Tensor(uint64_t n_rows, uint32_t seed) : rows(n_rows) {
    std::mt19937 random(seed);
    blocks.resize(kExperts * rows * kSize / 2);
    scales.resize(kExperts * rows * kSize / 32);
    for (uint8_t& byte : blocks) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : scales) byte = static_cast<uint8_t>(115 + random() % 16);
  }
  float Value(size_t expert, size_t row, size_t column) const {
    constexpr float kMagnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const size_t element = (expert * rows + row) * kSize + column;
    const int code = blocks[element / 2] >> (4 * (element % 2)) & 15;
    const float scale = std::ldexp(1.0f, scales[element / 32] - 127);
    return (code >= 8 ? -scale : scale) * kMagnitudes[code % 8];
  }
  uint64_t rows;
  std::vector<uint8_t> blocks, scales;
};

class Mxfp4Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    COLIBRI_REQUIRE_ASSETS();
    const fs::path golden = fs::path(testing::AssetsDir()) / "goldens" / "gpt_oss";
    folder_ = fs::temp_directory_path() / ("colibri_mxfp4_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    std::string config = testing::ReadFile((golden / "config.json").string());
    config.insert(config.find('{') + 1, R"("quantization_config": {"quant_method": "mxfp4"},)");
    std::ofstream(folder_ / "config.json") << config;

    auto source = OpenModelFiles(golden.string(), Log());
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    std::vector<std::vector<uint8_t>> data;
    std::vector<TensorToWrite> tensors;
    data.reserve(source->tensors->tensors().size());
    for (const TensorInfo& tensor : source->tensors->tensors()) {
      const auto ends_with = [&](const std::string& end) {
        return tensor.name.size() >= end.size() &&
               tensor.name.substr(tensor.name.size() - end.size()) == end;
      };
      const Mxfp4Tensor* experts = ends_with("gate_up_proj") ? &gate_up_
                                   : ends_with("down_proj")  ? &down_
                                                             : nullptr;
      if (experts == nullptr) {
        data.emplace_back(tensor.n_bytes);
        ASSERT_TRUE(source->tensors->Read(tensor, 0, data.back()).ok());
        tensors.push_back({tensor.name, tensor.dtype, tensor.shape, data.back()});
      } else {
        tensors.push_back({tensor.name + "_blocks",
                           DType::kU8,
                           {kExperts, experts->rows, kSize / 32, 16},
                           experts->blocks});
        tensors.push_back({tensor.name + "_scales",
                           DType::kU8,
                           {kExperts, experts->rows, kSize / 32},
                           experts->scales});
      }
    }
    ASSERT_TRUE(WriteSafetensors((folder_ / "model.safetensors").string(), tensors).ok());
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  static std::vector<float> Row(const MatrixView& w, int32_t row) {
    std::vector<float> out(static_cast<size_t>(w.cols));
    if (w.layout == Layout::kPanels) {
      UnpackPanelRow(w.dtype, w.row(row / kPanelRows * kPanelRows), row % kPanelRows, w.cols,
                     out.data());
    } else {
      DequantizeReference(w.dtype, w.row(row), out.data(), out.size());
    }
    return out;
  }

  // Row r of the matrix is stored row first + r * step.
  static void ExpectRows(const MatrixView& w, const Mxfp4Tensor& stored, size_t expert,
                         size_t first, size_t step) {
    ASSERT_EQ(w.dtype, DType::kMXFP4);
    ASSERT_EQ(w.rows, kSize);
    for (int32_t r = 0; r < w.rows; ++r) {
      const std::vector<float> row = Row(w, r);
      for (size_t c = 0; c < row.size(); ++c) {
        ASSERT_EQ(row[c], stored.Value(expert, first + static_cast<size_t>(r) * step, c))
            << "expert " << expert << ", row " << r << ", column " << c;
      }
    }
  }

  void ExpectWeights(ActivationType activations, Layout layout) const {
    const auto files = OpenModelFiles(folder_.string(), Log());
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    const auto pool = ThreadPool::Create(2);
    LoadOptions options;
    options.activations = activations;
    const auto model = Model::Load(*files, **pool, options, Log());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    for (const LayerWeights& layer : (*model)->weights().layers) {
      ASSERT_EQ(layer.moe.experts.size(), static_cast<size_t>(kExperts));
      for (size_t e = 0; e < layer.moe.experts.size(); ++e) {
        const FfnWeights& expert = layer.moe.experts[e];
        EXPECT_EQ(expert.gate.layout, layout);
        ExpectRows(expert.gate, gate_up_, e, 0, 2);  // gate and up alternate
        ExpectRows(expert.up, gate_up_, e, 1, 2);
        ExpectRows(expert.down, down_, e, 0, 1);
      }
    }
  }

  const Mxfp4Tensor gate_up_{2 * kSize, 1}, down_{kSize, 2};
  fs::path folder_;
};

TEST_F(Mxfp4Folder, RowsHoldWhatTheFileSays) {
  ExpectWeights(ActivationType::kFloat32, Layout::kRows);
}

TEST_F(Mxfp4Folder, PanelsHoldWhatTheFileSays) {
  ExpectWeights(ActivationType::kInt8, Layout::kPanels);
}

}  // namespace
}  // namespace colibri
