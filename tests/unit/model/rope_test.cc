// Rotations against the numbers of transformers.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace colibri {
namespace {

struct Turn {
  int64_t position;
  size_t pair;
  float cos, sin;
};

// A last bit of a frequency is worth 65535 * 2^-24 of an angle at the farthest position.
constexpr float kTolerance = 5e-3f;

void ExpectTurns(const RopeSpec& spec, int64_t max_context, const std::vector<Turn>& turns) {
  const std::vector<float> frequencies = RopeInverseFrequencies(spec, max_context);
  ASSERT_EQ(frequencies.size(), static_cast<size_t>(spec.n_rotary) / 2);
  const float factor = RopeAttentionFactor(spec, max_context);
  for (const Turn& turn : turns) {
    std::vector<float> cos(frequencies.size()), sin(frequencies.size());
    RopeCosSin(frequencies, factor, turn.position, cos.data(), sin.data());
    const float tolerance = turn.position < 10000 ? kTolerance / 16 : kTolerance;
    EXPECT_NEAR(cos[turn.pair], turn.cos, tolerance)
        << "position " << turn.position << ", pair " << turn.pair;
    EXPECT_NEAR(sin[turn.pair], turn.sin, tolerance)
        << "position " << turn.position << ", pair " << turn.pair;
  }
}

RopeSpec LongRope() {
  RopeSpec spec{.n_rotary = 128,
                .theta = 10000,
                .scaling = RopeScaling::kLongRope,
                .original_positions = 4096};
  for (int i = 0; i < 64; ++i) {
    spec.short_factors.push_back(1 + 0.01 * i);
    spec.long_factors.push_back(1 + 0.5 * i);
  }
  spec.attention_factor = std::sqrt(1 + std::log(32.0) / std::log(4096.0));
  return spec;
}

TEST(Rope, DefaultTurnsAsTransformersDoes) {
  const RopeSpec spec{.n_rotary = 128, .theta = 1e6};
  ExpectTurns(spec, 1,
              {
                  {0, 0, 1.0f, 0.0f},
                  {0, 7, 1.0f, 0.0f},
                  {0, 31, 1.0f, 0.0f},
                  {0, 63, 1.0f, 0.0f},
                  {4095, 0, -0.06597599f, -0.9978212f},
                  {4095, 7, 0.4346448f, -0.900602f},
                  {4095, 31, 0.3609177f, -0.9325977f},
                  {4095, 63, 0.9999871f, 0.005081618f},
                  {65535, 0, 0.192344f, 0.9813275f},
                  {65535, 7, -0.4712664f, -0.8819909f},
                  {65535, 31, 0.9371068f, -0.3490427f},
                  {65535, 63, 0.9966949f, 0.08123524f},
              });
}

TEST(Rope, LinearTurnsAsTransformersDoes) {
  const RopeSpec spec{
      .n_rotary = 128, .theta = 10000, .scaling = RopeScaling::kLinear, .factor = 4};
  ExpectTurns(spec, 1,
              {
                  {0, 0, 1.0f, 0.0f},
                  {0, 7, 1.0f, 0.0f},
                  {0, 31, 1.0f, 0.0f},
                  {0, 63, 1.0f, 0.0f},
                  {4095, 0, 0.9174374f, -0.3978802f},
                  {4095, 7, -0.9999968f, 0.002510394f},
                  {4095, 31, 0.7355691f, -0.6774497f},
                  {4095, 63, 0.9930201f, 0.1179456f},
                  {65535, 0, -0.9413081f, -0.3375487f},
                  {65535, 7, 0.238998f, 0.9710201f},
                  {65535, 31, 0.764175f, 0.645009f},
                  {65535, 63, -0.3156765f, 0.9488669f},
              });
}

TEST(Rope, YarnTurnsAsTransformersDoes) {
  const RopeSpec spec{.n_rotary = 128,
                      .theta = 1e6,
                      .scaling = RopeScaling::kYarn,
                      .factor = 4,
                      .original_positions = 32768,
                      .attention_factor = 0.1 * std::log(4.0) + 1};
  ExpectTurns(spec, 1,
              {
                  {0, 0, 1.138629f, 0.0f},
                  {0, 7, 1.138629f, 0.0f},
                  {0, 31, 1.138629f, 0.0f},
                  {0, 63, 1.138629f, 0.0f},
                  {4095, 0, -0.07512221f, -1.136149f},
                  {4095, 7, 0.4948994f, -1.025452f},
                  {4095, 31, -1.126428f, -0.1662443f},
                  {4095, 63, 1.138629f, 0.001446526f},
                  {65535, 0, 0.2190086f, 1.117368f},
                  {65535, 7, -0.5365978f, -1.004261f},
                  {65535, 31, -0.8053694f, 0.8048957f},
                  {65535, 63, 1.138394f, 0.02314812f},
              });
}

TEST(Rope, YarnWithoutTruncationTurnsAsTransformersDoes) {
  const RopeSpec spec{.n_rotary = 64,
                      .theta = 150000,
                      .scaling = RopeScaling::kYarn,
                      .factor = 32,
                      .original_positions = 4096,
                      .truncate = false,
                      .attention_factor = 0.1 * std::log(32.0) + 1};
  ExpectTurns(spec, 1,
              {
                  {0, 0, 1.346574f, 0.0f},
                  {0, 7, 1.346574f, 0.0f},
                  {0, 31, 1.346574f, 0.0f},
                  {4095, 0, -0.08884153f, -1.34364f},
                  {4095, 7, 1.244887f, 0.5133389f},
                  {4095, 31, 1.346573f, 0.00166723f},
                  {65535, 0, 0.2590054f, 1.32143f},
                  {65535, 7, 0.6339699f, 1.187999f},
                  {65535, 31, 1.346309f, 0.02668005f},
              });
}

TEST(Rope, YarnOfLatentAttentionTurnsAsTransformersDoes) {
  const RopeSpec spec{
      .n_rotary = 64,
      .theta = 10000,
      .scaling = RopeScaling::kYarn,
      .factor = 40,
      .original_positions = 4096,
      .attention_factor = (0.0707 * std::log(40.0) + 1) / (0.1 * std::log(40.0) + 1)};
  ExpectTurns(spec, 1,
              {
                  {0, 0, 0.9210424f, 0.0f},
                  {0, 7, 0.9210424f, 0.0f},
                  {0, 31, 0.9210424f, 0.0f},
                  {4095, 0, -0.06076669f, -0.9190356f},
                  {4095, 7, 0.7803112f, -0.4893194f},
                  {4095, 31, 0.9209566f, 0.01257361f},
                  {65535, 0, 0.177157f, 0.9038442f},
                  {65535, 7, 0.7171376f, -0.5779557f},
                  {65535, 31, 0.8991473f, 0.199633f},
              });
}

TEST(Rope, Llama3TurnsAsTransformersDoes) {
  const RopeSpec spec{.n_rotary = 128,
                      .theta = 500000,
                      .scaling = RopeScaling::kLlama3,
                      .factor = 8,
                      .original_positions = 8192,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4};
  ExpectTurns(spec, 1,
              {
                  {0, 0, 1.0f, 0.0f},
                  {0, 7, 1.0f, 0.0f},
                  {0, 31, 1.0f, 0.0f},
                  {0, 63, 1.0f, 0.0f},
                  {4095, 0, -0.06597599f, -0.9978212f},
                  {4095, 7, 0.5924814f, 0.8055841f},
                  {4095, 31, -0.9334781f, -0.3586345f},
                  {4095, 63, 0.9999992f, 0.001256725f},
                  {65535, 0, 0.192344f, 0.9813275f},
                  {65535, 7, 0.9574763f, -0.288512f},
                  {65535, 31, 0.9204905f, -0.3907649f},
                  {65535, 63, 0.9997978f, 0.02011085f},
              });
}

TEST(Rope, LongRopeWithinTheOriginalContextTurnsAsTransformersDoes) {
  ExpectTurns(LongRope(), 4096,
              {
                  {0, 0, 1.190238f, 0.0f},
                  {0, 7, 1.190238f, 0.0f},
                  {0, 31, 1.190238f, 0.0f},
                  {0, 63, 1.190238f, 0.0f},
                  {4095, 0, -0.07852715f, -1.187645f},
                  {4095, 7, -1.071802f, 0.5175979f},
                  {4095, 31, -0.03612759f, -1.18969f},
                  {4095, 63, 1.1405f, 0.3404795f},
                  {65535, 0, 0.2289352f, 1.168013f},
                  {65535, 7, -0.5793328f, -1.039731f},
                  {65535, 31, 1.116657f, -0.4119999f},
                  {65535, 63, -0.08268833f, -1.187362f},
              });
}

TEST(Rope, LongRopeBeyondTheOriginalContextTurnsAsTransformersDoes) {
  ExpectTurns(LongRope(), 4097,
              {
                  {0, 0, 1.190238f, 0.0f},
                  {0, 7, 1.190238f, 0.0f},
                  {0, 31, 1.190238f, 0.0f},
                  {0, 63, 1.190238f, 0.0f},
                  {4095, 0, -0.07852715f, -1.187645f},
                  {4095, 7, 0.9100762f, -0.7670907f},
                  {4095, 31, -1.14531f, 0.3239314f},
                  {4095, 63, 1.190112f, 0.01731765f},
                  {65535, 0, 0.2289352f, 1.168013f},
                  {65535, 7, -1.006197f, 0.6357944f},
                  {65535, 31, -0.3662053f, 1.132502f},
                  {65535, 63, 1.158115f, 0.2746578f},
              });
}

TEST(Rope, AlphaStretchesTheBaseWhateverTheContext) {
  const RopeSpec spec{.n_rotary = 128,
                      .theta = 10000,
                      .scaling = RopeScaling::kDynamic,
                      .max_positions = 32768,
                      .alpha = 1000};
  const RopeSpec stretched{.n_rotary = 128, .theta = 10000 * std::pow(1000.0, 128.0 / 126.0)};
  EXPECT_EQ(RopeInverseFrequencies(spec, 10), RopeInverseFrequencies(stretched, 10));
  EXPECT_EQ(RopeInverseFrequencies(spec, 100000), RopeInverseFrequencies(stretched, 10));
}

TEST(Rope, DynamicScalingChangesNothingWithinTheContext) {
  const RopeSpec spec{.n_rotary = 64,
                      .theta = 10000,
                      .scaling = RopeScaling::kDynamic,
                      .factor = 2,
                      .max_positions = 2048};
  const RopeSpec plain{.n_rotary = 64, .theta = 10000};
  EXPECT_EQ(RopeInverseFrequencies(spec, 2048), RopeInverseFrequencies(plain, 2048));
  EXPECT_LT(RopeInverseFrequencies(spec, 4096)[31], RopeInverseFrequencies(plain, 4096)[31]);
}

TEST(Rope, LongContextsTakeTheirOwnAttentionFactor) {
  RopeSpec spec = LongRope();
  spec.attention_factor = 1;
  spec.short_attention_factor = 1.25;
  spec.long_attention_factor = 1.5;
  EXPECT_EQ(RopeAttentionFactor(spec, 4096), 1.25f);
  EXPECT_EQ(RopeAttentionFactor(spec, 4097), 1.5f);
}

TEST(Rope, HalvesAndNeighboursTurnTheSamePairs) {
  const std::vector<float> cos = {0.5f, 0.25f}, sin = {2.0f, 4.0f};
  std::vector<float> halves = {1, 2, 3, 4, 9}, neighbours = {1, 3, 2, 4, 9};
  ApplyRope(RopeLayout::kHalf, 2, cos.data(), sin.data(), halves.data());
  ApplyRope(RopeLayout::kInterleaved, 2, cos.data(), sin.data(), neighbours.data());
  EXPECT_EQ(halves, (std::vector<float>{0.5f - 6, 0.5f - 16, 1.5f + 2, 1 + 8, 9}));
  EXPECT_EQ(neighbours, (std::vector<float>{halves[0], halves[2], halves[1], halves[3], 9}));
}

}  // namespace
}  // namespace colibri
