#include "model/mixer/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "base/strings.h"
#include "kernels/select.h"
#include "model/config.h"
#include "support/kernel_data.h"

namespace colibri {
namespace {

using testing::RandomFloats;

struct Case {
  const char* name;
  int32_t n_heads, n_kv_heads, head_dim, v_head_dim;
  bool latent;
  int32_t window;
  bool sinks;
};
constexpr Case kCases[] = {
    {"grouped", 8, 2, 64, 64, false, 0, false},
    {"each_head_its_own", 3, 3, 48, 80, false, 0, false},
    {"window", 8, 2, 32, 32, false, 300, false},
    {"short_window_and_sinks", 4, 1, 64, 64, false, 17, true},
    {"many_heads", 160, 1, 16, 16, false, 0, true},
    {"latent", 6, 1, 144, 128, true, 0, false},
};

ModelConfig ConfigOf(const Case& c) {
  ModelConfig config;
  config.hidden = 32;
  config.n_layers = 1;
  LayerPlan layer;
  layer.attention.kind = c.latent ? MixerKind::kMla : MixerKind::kGqa;
  layer.attention.n_heads = c.n_heads;
  layer.attention.n_kv_heads = c.n_kv_heads;
  layer.attention.head_dim = c.head_dim;
  layer.attention.v_head_dim = c.v_head_dim;
  if (c.latent) {
    layer.attention.kv_lora_rank = c.v_head_dim;
    layer.attention.rope_dim = c.head_dim - c.v_head_dim;
  }
  config.layers.push_back(layer);
  return config;
}

// One layer's attention with a cache of some sequences.
class Layer {
 public:
  Layer(const Case& c, KvType type, int n_threads, int32_t n_positions, int32_t n_sequences = 1)
      : case_(c), config_(ConfigOf(c)), layout_(MakeKvLayout(config_, type)) {
    pool_ = std::move(ThreadPool::Create(n_threads)).value();
    context_.reset(new ExecutionContext{*pool_, **SelectKernelsFromEnvironment()});
    n_pages_ = static_cast<size_t>((n_positions + kPageTokens - 1) / kPageTokens);
    const size_t all = n_pages_ * static_cast<size_t>(n_sequences);
    pages_.resize(all);
    std::iota(pages_.begin(), pages_.end(), 0);
    std::shuffle(pages_.begin(), pages_.end(), std::mt19937(5));
    // Where nothing was written, anything may stand.
    memory_.assign(all * layout_.page_bytes, 0xff);
    kv_.layout = &layout_;
    kv_.pages = memory_.data();
    kv_.n_pages = static_cast<int32_t>(all);
    w_ = std::move(MakeWorkspace(config_, n_threads, n_positions * n_sequences, n_positions))
             .value();
    sinks_ = RandomFloats(static_cast<size_t>(c.n_heads), 77);
  }

  const LayerKvLayout& rows() const { return layout_.layers[0]; }
  size_t q_floats() const {
    return static_cast<size_t>(case_.n_heads) * static_cast<size_t>(case_.head_dim);
  }
  size_t out_floats() const {
    return static_cast<size_t>(case_.n_heads) * static_cast<size_t>(case_.v_head_dim);
  }
  SequenceSlice Slice(int32_t sequence, int32_t position, int32_t n_tokens) const {
    SequenceSlice slice;
    slice.n_tokens = n_tokens;
    slice.position = position;
    slice.pages = std::span(pages_).subspan(static_cast<size_t>(sequence) * n_pages_, n_pages_);
    return slice;
  }
  void Write(const SequenceSlice& slice, const std::vector<float>& k, const std::vector<float>& v) {
    for (int32_t p = slice.position; p < slice.position + slice.n_tokens; ++p) {
      const auto row = static_cast<size_t>(p);
      EXPECT_TRUE(StoreRows(context_->kernels, kv_, rows(), slice, p, &k[row * rows().k_floats()],
                            v.data() + row * rows().v_floats()));
    }
  }
  // The slices' queries, one after the other; their rows must have been written.
  std::vector<float> Attention(const std::vector<SequenceSlice>& slices,
                               const std::vector<float>& q) {
    w_.slice_row.clear();
    int32_t n_tokens = 0;
    for (const SequenceSlice& slice : slices) {
      w_.slice_row.push_back(n_tokens);
      n_tokens += slice.n_tokens;
    }
    std::vector<float> out(static_cast<size_t>(n_tokens) * out_floats());
    AttentionCall call;
    call.q = q.data();
    call.out = out.data();
    call.n_heads = case_.n_heads;
    call.scale = 0.7f / std::sqrt(static_cast<float>(case_.head_dim));
    call.window = case_.window;
    call.sinks = case_.sinks ? sinks_.data() : nullptr;
    call.layout = rows();
    Attend(*context_, {.tokens = {}, .slices = slices, .logit_rows = {}}, kv_, call, w_);
    return out;
  }
  const std::vector<float>& sinks() const { return sinks_; }

 private:
  const Case& case_;
  ModelConfig config_;
  KvLayout layout_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ExecutionContext> context_;
  size_t n_pages_ = 0;
  std::vector<int32_t> pages_;
  std::vector<uint8_t> memory_;
  KvStorage kv_;
  Workspace w_;
  std::vector<float> sinks_;
};

// A sequence's queries, keys and values.
struct Rows {
  Rows(const Layer& layer, int32_t n, uint32_t seed)
      : q(RandomFloats(static_cast<size_t>(n) * layer.q_floats(), seed, 2.0f)),
        k(RandomFloats(static_cast<size_t>(n) * layer.rows().k_floats(), seed + 1)),
        v(RandomFloats(static_cast<size_t>(n) * layer.rows().v_floats(), seed + 2)) {}
  std::vector<float> q, k, v;
};

// A sequence in steps of `chunk` tokens.
std::vector<float> InSteps(Layer& layer, const Rows& rows, int32_t n, int32_t chunk) {
  std::vector<float> out;
  for (int32_t first = 0; first < n; first += chunk) {
    const int32_t count = std::min(chunk, n - first);
    const SequenceSlice slice = layer.Slice(0, first, count);
    layer.Write(slice, rows.k, rows.v);
    const auto from =
        rows.q.begin() + static_cast<int64_t>(first) * static_cast<int64_t>(layer.q_floats());
    const std::vector<float> q(
        from, from + static_cast<int64_t>(count) * static_cast<int64_t>(layer.q_floats()));
    const std::vector<float> part = layer.Attention({slice}, q);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

class AttentionTest : public ::testing::TestWithParam<Case> {};

constexpr int32_t kPositions = 700;  // three chunks, the last one cut

TEST_P(AttentionTest, AgreesWithDouble) {
  const Case& c = GetParam();
  Layer layer(c, KvType::kF32, 2, kPositions);
  const Rows rows(layer, kPositions, 1);
  const std::vector<float> got = InSteps(layer, rows, kPositions, kPositions);
  const auto dim = static_cast<size_t>(c.head_dim), v_dim = static_cast<size_t>(c.v_head_dim);
  const int32_t group = c.n_heads / c.n_kv_heads;
  for (const int32_t p : {0, 1, 16, 17, 31, 32, 255, 256, 257, 299, 300, 511, 512, 600, 699}) {
    for (const int32_t h : {0, 1, c.n_heads / 2, c.n_heads - 1}) {
      const float* q =
          &rows.q[static_cast<size_t>(p) * layer.q_floats() + static_cast<size_t>(h) * dim];
      const auto kv_head = static_cast<size_t>(h / group);
      const int32_t start = c.window > 0 ? std::max(0, p - c.window + 1) : 0;
      std::vector<double> scores;
      double max = c.sinks ? static_cast<double>(layer.sinks()[static_cast<size_t>(h)]) : -1e300;
      for (int32_t s = start; s <= p; ++s) {
        const float* k = &rows.k[static_cast<size_t>(s) * layer.rows().k_floats() + kv_head * dim];
        double score = 0;
        for (size_t i = 0; i < dim; ++i) {
          score += static_cast<double>(q[i]) * static_cast<double>(k[i]);
        }
        scores.push_back(score * 0.7 / std::sqrt(static_cast<double>(c.head_dim)));
        max = std::max(max, scores.back());
      }
      double sum =
          c.sinks ? std::exp(static_cast<double>(layer.sinks()[static_cast<size_t>(h)]) - max) : 0;
      std::vector<double> want(v_dim);
      for (int32_t s = start; s <= p; ++s) {
        const double weight = std::exp(scores[static_cast<size_t>(s - start)] - max);
        sum += weight;
        const float* v =
            c.latent ? &rows.k[static_cast<size_t>(s) * layer.rows().k_floats()]
                     : &rows.v[static_cast<size_t>(s) * layer.rows().v_floats() + kv_head * v_dim];
        for (size_t i = 0; i < v_dim; ++i) want[i] += weight * static_cast<double>(v[i]);
      }
      for (size_t i = 0; i < v_dim; ++i) {
        ASSERT_NEAR(
            got[static_cast<size_t>(p) * layer.out_floats() + static_cast<size_t>(h) * v_dim + i],
            want[i] / sum, 5e-6)
            << "position " << p << ", head " << h << ", element " << i;
      }
    }
  }
}

TEST_P(AttentionTest, StepsAndThreadsChangeNoBit) {
  const Case& c = GetParam();
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kF16, KvType::kQ8_0}) {
    Layer alone(c, type, 1, kPositions);
    const Rows rows(alone, kPositions, 3);
    const std::vector<float> want = InSteps(alone, rows, kPositions, 1);
    for (const int n_threads : {1, 2, 5}) {
      for (const int32_t chunk : {1, 7, 64, 300, kPositions}) {
        Layer layer(c, type, n_threads, kPositions);
        const std::vector<float> got = InSteps(layer, rows, kPositions, chunk);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(float)), 0)
              << KvTypeName(type) << ", " << n_threads << " threads, steps of " << chunk
              << ", position " << i / alone.out_floats() << ": " << got[i] << ", alone " << want[i];
        }
      }
    }
  }
}

TEST_P(AttentionTest, OtherSequencesOfTheStepChangeNoBit) {
  const Case& c = GetParam();
  constexpr int32_t kOthers = 4;
  const int32_t lengths[kOthers] = {1, 40, 300, kPositions};
  for (const int n_threads : {1, 2}) {
    Layer layer(c, KvType::kF16, n_threads, kPositions, kOthers);
    std::vector<Rows> rows;
    std::vector<SequenceSlice> decodes;
    std::vector<float> q;
    for (int32_t s = 0; s < kOthers; ++s) {
      rows.emplace_back(layer, lengths[s], static_cast<uint32_t>(10 * s + 1));
      layer.Write(layer.Slice(s, 0, lengths[s]), rows.back().k, rows.back().v);
      decodes.push_back(layer.Slice(s, lengths[s] - 1, 1));
      q.insert(q.end(), rows.back().q.end() - static_cast<int64_t>(layer.q_floats()),
               rows.back().q.end());
    }
    const std::vector<float> together = layer.Attention(decodes, q);
    for (size_t s = 0; s < kOthers; ++s) {
      const std::vector<float> mine(q.begin() + static_cast<int64_t>(s * layer.q_floats()),
                                    q.begin() + static_cast<int64_t>((s + 1) * layer.q_floats()));
      const std::vector<float> alone = layer.Attention({decodes[s]}, mine);
      EXPECT_EQ(std::memcmp(alone.data(), &together[s * layer.out_floats()],
                            alone.size() * sizeof(float)),
                0)
          << n_threads << " threads, sequence " << s;
    }
  }
}

// More chunks than the threads' shared buffer holds at a time: they come in rounds.
TEST(Attention, ALongSequenceIsMergedInRoundsToTheSameBits) {
  constexpr Case kWide = {"wide", 48, 1, 32, 512, false, 0, false};
  constexpr int32_t kLong = 12000;
  const int32_t last = kLong - 1;
  std::vector<float> want;
  for (const int n_threads : {1, 2}) {
    Layer layer(kWide, KvType::kQ8_0, n_threads, kLong);
    const std::vector<float> k = RandomFloats(static_cast<size_t>(kLong) * 32, 1),
                             v = RandomFloats(static_cast<size_t>(kLong) * 512, 2);
    layer.Write(layer.Slice(0, 0, kLong), k, v);
    const std::vector<float> got =
        layer.Attention({layer.Slice(0, last, 1)}, RandomFloats(48 * 32, 3));
    if (n_threads == 1) {
      want = got;
    } else {
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
      EXPECT_LT(AttentionPartialFloats(layer.rows(), 2), 47u * 48u * 512u);
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Kinds, AttentionTest, ::testing::ValuesIn(kCases), NameOf);

}  // namespace
}  // namespace colibri
