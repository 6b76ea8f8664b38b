#include "engine/ops/conv_unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/parallel.h"

namespace dlpipe::engine {

extern const OpRecord conv_pair_op;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor filled(const Shape& shape, float value) {
  Tensor tensor = Tensor::empty(shape);
  std::fill_n(tensor.data<float>(), tensor.elements(), value);
  return tensor;
}

// A pixel that is NaN makes its outputs NaN, whatever follows, and no others.
TEST(ConvUnit, NanStaysNan) {
  for (const ConvTail tail : {ConvTail::kNone, ConvTail::kClip, ConvTail::kSilu}) {
    for (const int groups : {1, 16}) {
      Tensor x = filled({1, 4, 5, 16}, 1.0f);
      x.data<float>()[7 * 16 + 3] = kNan;  // pixel 7, channel 3
      const Tensor weight = filled({16, 16 / groups, 1, 1}, 0.5f);
      const Tensor y =
          conv_unit(x, weight, Tensor(), Tensor(), {.groups = groups, .tail = tail, .low = 0, .high = 6});
      for (int64_t i = 0; i < y.elements(); ++i) {
        const bool reads_it = i / 16 == 7 && (groups == 1 || i % 16 == 3);
        EXPECT_EQ(std::isnan(y.data<float>()[i]), reads_it) << i << ", groups " << groups;
      }
    }
  }
}

TEST(ConvUnit, SiluOfLargeNumbersIsFinite) {
  const std::vector<float> values = {-3e38f, -200, -88, -20, 0, 20, 88, 200, 3e38f};
  const Tensor x = Tensor::from<float>(values, {1, 9, 1, 1});
  const Tensor y = conv_unit(x, filled({1, 1, 1, 1}, 1), Tensor(), Tensor(), {.tail = ConvTail::kSilu});
  for (int64_t i = 0; i < 9; ++i) {
    const double value = x.data<float>()[i];
    const double expected = value < -700 ? 0 : value / (1 + std::exp(-value));
    EXPECT_NEAR(y.data<float>()[i], expected, 1e-6 + 1e-6 * std::abs(expected)) << value;
  }
}

TEST(ConvUnit, SiluIsNearTheDefinitionEverywhere) {
  constexpr int64_t kCount = 40000;
  Tensor x = Tensor::empty({1, kCount, 1, 1});
  for (int64_t i = 0; i < kCount; ++i) x.data<float>()[i] = static_cast<float>(2 * i - kCount) * 0.00115f;
  const Tensor y = conv_unit(x, filled({1, 1, 1, 1}, 1), Tensor(), Tensor(), {.tail = ConvTail::kSilu});
  for (int64_t i = 0; i < kCount; ++i) {
    const double value = x.data<float>()[i], expected = value / (1 + std::exp(-value));
    ASSERT_NEAR(y.data<float>()[i], expected, 5e-6 * (std::abs(expected) + 1e-30)) << value;
  }
}

TEST(ConvUnit, RefusesAResidualOfAnotherShape) {
  const Tensor x = filled({1, 4, 4, 8}, 1), weight = filled({8, 8, 1, 1}, 1);
  try {
    conv_unit(x, weight, Tensor(), filled({1, 4, 4, 1}, 1), {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("like the output, f32 [1,4,4,8], got f32 [1,4,4,1]"),
              std::string::npos)
        << error.what();
  }
}

TEST(ConvPair, CountsTheWorkOfBoth) {
  const std::vector<TensorSpec> inputs = {{{2, 6, 5, 4}}, {{7, 4, 1, 1}}, {{7, 1, 3, 3}}};
  const double pixels = 2 * 6 * 5, inner = 2 * pixels * 7 * 4, outer = 2 * pixels * 7 * 9;
  EXPECT_EQ(conv_pair_op.flops(inputs, ConvPairAttrs{.padding = {1, 1}}), inner + outer);
}

TEST(ConvUnit, HasNoGradient) {
  Tensor x = filled({1, 4, 4, 8}, 1);
  x.set_requires_grad(true);
  EXPECT_FALSE(conv_unit(x, filled({8, 8, 1, 1}, 1), Tensor(), Tensor(), {}).requires_grad());
}

}  // namespace
}  // namespace dlpipe::engine
