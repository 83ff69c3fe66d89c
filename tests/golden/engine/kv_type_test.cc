// What keys and values are stored as: every type keeps guarantee 1, over several chunks of
// positions, and costs no more precision than it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "support/assets.h"

namespace colibri {
namespace {

struct Case {
  const char* model;
  int32_t n_tokens;
};

class KvTypeTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { COLIBRI_REQUIRE_ASSETS(); }

  // The last position's logits of a sequence that is computed in steps of `chunk` tokens.
  std::vector<float> LastLogits(KvType type, int32_t n_threads, int32_t chunk,
                                ActivationType activations = ActivationType::kInt8) {
    const int32_t n = GetParam().n_tokens;
    auto engine = Engine::Create(testing::AssetsDir() + "/" + GetParam().model,
                                 {.n_threads = n_threads,
                                  .max_context = n,
                                  .max_batch_tokens = n,
                                  .max_sequences = 1,
                                  .kv_type = type,
                                  .activations = activations},
                                 {});
    EXPECT_TRUE(engine.ok()) << engine.status().ToString();
    if (!engine.ok()) return {};
    EXPECT_EQ((*engine)->kv_cache().type(), type);
    const auto sequence = (*engine)->CreateSequence(n);
    EXPECT_TRUE(sequence.ok()) << sequence.status().ToString();
    std::vector<int32_t> ids;
    for (int32_t t = 0; t < n; ++t) {
      ids.push_back(
          static_cast<int32_t>(UniformAt(7, static_cast<uint64_t>(t)) * (*engine)->vocab_size()));
    }
    std::vector<float> logits(static_cast<size_t>((*engine)->vocab_size()));
    for (int32_t first = 0; first < n; first += chunk) {
      const auto count = static_cast<size_t>(std::min(chunk, n - first));
      const StepItem item = {*sequence, std::span(ids).subspan(static_cast<size_t>(first), count)};
      StepResult result;
      const auto stepped = (*engine)->Step({&item, 1}, {.logits = logits, .results = {&result, 1}});
      EXPECT_TRUE(stepped.ok() && result.status.ok());
    }
    return logits;
  }
};

TEST_P(KvTypeTest, StepsAndThreadsChangeNoBit) {
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kF16, KvType::kQ8_0}) {
    const std::vector<float> want = LastLogits(type, 1, GetParam().n_tokens);
    for (const int32_t n_threads : {1, 2}) {
      for (const int32_t chunk : {1, 93, GetParam().n_tokens}) {
        const std::vector<float> got = LastLogits(type, n_threads, chunk);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
            << KvTypeName(type) << ", " << n_threads << " threads, steps of " << chunk;
      }
    }
  }
}

TEST_P(KvTypeTest, SmallerTypesChangeTheLogitsLittle) {
  // Rounded activations would show as well: a small difference may round the other way.
  const auto logits_of = [&](KvType type) {
    return LastLogits(type, 2, 64, ActivationType::kFloat32);
  };
  const std::vector<float> exact = logits_of(KvType::kF32);
  double square = 0;
  for (const float x : exact) square += static_cast<double>(x) * static_cast<double>(x);
  struct Bound {
    KvType type;
    double error;  // relative, root mean square
  };
  for (const Bound bound :
       {Bound{KvType::kF16, 0.003}, Bound{KvType::kBF16, 0.02}, Bound{KvType::kQ8_0, 0.03}}) {
    const std::vector<float> got = logits_of(bound.type);
    double error = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - static_cast<double>(exact[i]), 2);
    }
    EXPECT_LT(std::sqrt(error / square), bound.error) << KvTypeName(bound.type);
    EXPECT_GT(error, 0) << KvTypeName(bound.type) << " took no effect";
  }
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, KvTypeTest,
                         ::testing::Values(Case{"models/nano", 600},
                                           Case{"goldens/deepseek_v3", 120},
                                           Case{"goldens/mixtral_sliding", 120}),
                         NameOf);

}  // namespace
}  // namespace colibri
