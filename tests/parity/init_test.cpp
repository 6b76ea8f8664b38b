// Initial weights against PyTorch's: the generators differ, so moments and bounds are compared.
#include "dlpipe/module.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "tests/parity/golden.h"

namespace dlpipe::engine::parity {
namespace {

struct Moments {
  double mean = 0.0;
  double spread = 0.0;
  double largest = 0.0;
};

Moments moments_of(const Tensor& tensor) {
  Moments m;
  const std::vector<double> values = tensor.to_doubles();
  const auto count = static_cast<double>(values.size());
  for (const double value : values) {
    m.mean += value / count;
    m.largest = std::max(m.largest, std::fabs(value));
  }
  for (const double value : values) m.spread += (value - m.mean) * (value - m.mean) / count;
  m.spread = std::sqrt(m.spread);
  return m;
}

/// Both are samples of `count` elements: a mean is off by s/sqrt(count), a standard deviation by at most
/// s/sqrt(2 count) (the normal's; the uniform's is less); five of them, times sqrt(2) for two samples.
void expect_same_distribution(const std::string& key, const Tensor& tensor, const Golden& golden) {
  const std::vector<double>& expected = golden.at(key);
  ASSERT_EQ(expected.size(), 4u) << key;
  ASSERT_EQ(static_cast<double>(tensor.elements()), expected[0]) << key;
  const Moments actual = moments_of(tensor);
  const double error = 5.0 * std::sqrt(2.0 / expected[0]) * expected[2];
  EXPECT_NEAR(actual.mean, expected[1], error + 1e-12) << key;
  EXPECT_NEAR(actual.spread, expected[2], error / std::sqrt(2.0) + 1e-12) << key;
  // The largest of a uniform sample is near its bound; of a normal one it varies by a tenth or two.
  if (expected[0] > 100) {
    EXPECT_NEAR(actual.largest, expected[3], 0.25 * expected[3]) << key;
  }
}

void expect_initialised_alike(const std::string& kind, Module& layer) {
  const Golden golden("init");
  initialize(layer, 7);
  for (const NamedTensor& parameter : layer.parameters())
    expect_same_distribution(kind + "." + parameter.name, parameter.tensor, golden);
}

TEST(InitParity, Conv2d) {
  Conv2d layer(16, 32, 3);
  expect_initialised_alike("conv", layer);
}
TEST(InitParity, Conv2dWithGroups) {
  Conv2d layer(16, 32, {3, 5}, {.groups = 4});
  expect_initialised_alike("conv_groups", layer);
}
TEST(InitParity, Linear) {
  Linear layer(100, 200);
  expect_initialised_alike("linear", layer);
}
TEST(InitParity, Embedding) {
  Embedding layer(300, 64);
  expect_initialised_alike("embedding", layer);
}
TEST(InitParity, BatchNorm2d) {
  BatchNorm2d layer(8);
  expect_initialised_alike("batch_norm", layer);
}
TEST(InitParity, LayerNorm) {
  LayerNorm layer(8);
  expect_initialised_alike("layer_norm", layer);
}
TEST(InitParity, ResnetsAreTorchvisions) {
  const Golden golden("init");
  const auto model = value_or_throw(ModelRegistry::builtin().find("resnet18"))->build({10, 3, 64, 64, 7});
  for (const NamedTensor& parameter : model->parameters())
    expect_same_distribution("resnet18." + parameter.name, parameter.tensor, golden);
}

}  // namespace
}  // namespace dlpipe::engine::parity
