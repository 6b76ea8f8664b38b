#include "dlpipe/module.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dlpipe/layers.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {
namespace {

std::vector<double> drawn(uint64_t seed, const std::string& name, int64_t count) {
  Tensor tensor = Tensor::empty({count});
  fill_normal(tensor, {seed, name}, 0.0, 1.0);
  return tensor.to_doubles();
}

TEST(Init, DependsOnSeedAndName) {
  EXPECT_EQ(drawn(1, "a.weight", 100), drawn(1, "a.weight", 100));
  EXPECT_NE(drawn(1, "a.weight", 100), drawn(2, "a.weight", 100));
  EXPECT_NE(drawn(1, "a.weight", 100), drawn(1, "b.weight", 100));
}

TEST(Init, IsLeftOutForWhoLoadsWeightsNext) {
  const auto linear = std::make_shared<Linear>(4, 4);
  const auto norm = std::make_shared<BatchNorm2d>(4);
  {
    const LeaveUninitialized until_loaded(true);
    initialize(*linear, 1);
    initialize(*norm, 1);
  }
  for (const double weight : linear->parameters()[0].tensor.to_doubles()) EXPECT_TRUE(std::isnan(weight));
  EXPECT_EQ(norm->parameters()[0].tensor.to_doubles(), (std::vector<double>{1, 1, 1, 1}));
  initialize(*linear, 1);
  for (const double weight : linear->parameters()[0].tensor.to_doubles()) EXPECT_FALSE(std::isnan(weight));
}

TEST(Init, DoesNotDependOnThreads) {
  const int former = engine_threads();
  set_engine_threads(1);
  const std::vector<double> one = drawn(3, "weight", 20000);
  set_engine_threads(3);
  EXPECT_EQ(drawn(3, "weight", 20000), one);
  set_engine_threads(former);
}

TEST(Init, DoesNotDependOnOtherLayers) {
  Sequential small;
  small.append("fc", std::make_shared<Linear>(4, 4));
  Sequential large;
  large.append("first", std::make_shared<Linear>(9, 9)).append("fc", std::make_shared<Linear>(4, 4));
  initialize(small, 5);
  initialize(large, 5);
  EXPECT_EQ(small.parameters()[0].tensor.to_doubles(), large.parameters()[2].tensor.to_doubles());
}

TEST(Init, NeighbouringStreamsDiffer) {
  // 4096 elements per stream: an element and the one a stream later are not the same.
  const std::vector<double> values = drawn(1, "weight", 3 * 4096);
  int equal = 0;
  for (size_t i = 0; i + 4096 < values.size(); ++i) equal += values[i] == values[i + 4096] ? 1 : 0;
  EXPECT_LT(equal, 10);
}

TEST(Init, UniformStaysBelowItsUpperBound) {
  Tensor tensor = Tensor::empty({10000});
  fill_uniform(tensor, {1, "weight"}, 1.0, 1.0 + 0x1p-22);  // three floats wide
  for (const double value : tensor.to_doubles()) {
    EXPECT_GE(value, 1.0);
    EXPECT_LT(value, 1.0 + 0x1p-22);
  }
}

TEST(Init, FansCountTheReceptiveField) {
  const Fans conv = fans({32, 16, 3, 5});
  EXPECT_EQ(conv.in, 16 * 15);
  EXPECT_EQ(conv.out, 32 * 15);
  const Fans linear = fans({7, 9});
  EXPECT_EQ(linear.in, 9);
  EXPECT_EQ(linear.out, 7);
}

TEST(Init, FanOutChangesConvolutionsAlone) {
  auto make = [] {
    auto net = std::make_unique<Sequential>();
    net->append("conv", std::make_shared<Conv2d>(8, 64, 3)).append("fc", std::make_shared<Linear>(64, 10));
    return net;
  };
  const auto plain = make();
  const auto fan_out = make();
  initialize(*plain, 1);
  initialize_fan_out(*fan_out, 1);
  double squares = 0.0;
  const Tensor weight = fan_out->parameters()[0].tensor;
  for (const double value : weight.to_doubles()) squares += value * value;
  // Standard deviation sqrt(2 / (64 * 9)); 4608 draws, so within 5 / sqrt(2 * 4608) of it.
  EXPECT_NEAR(std::sqrt(squares / 4608.0) / std::sqrt(2.0 / 576.0), 1.0, 0.052);
  EXPECT_EQ(plain->parameters()[1].tensor.to_doubles(), fan_out->parameters()[1].tensor.to_doubles());
  EXPECT_EQ(plain->parameters()[2].tensor.to_doubles(), fan_out->parameters()[2].tensor.to_doubles());
}

TEST(Init, DiracPassesChannelsOn) {
  Tensor weight = Tensor::full({3, 2, 3, 3}, 0.5);
  fill_dirac(weight);
  const std::vector<double> values = weight.to_doubles();
  for (size_t o = 0; o < 3; ++o) {
    for (size_t c = 0; c < 2; ++c) {
      for (size_t i = 0; i < 9; ++i) {
        const double expected = o == 2 ? 0.5 : o == c && i == 4 ? 1.0 : 0.0;
        EXPECT_EQ(values[(o * 2 + c) * 9 + i], expected) << o << ' ' << c << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
