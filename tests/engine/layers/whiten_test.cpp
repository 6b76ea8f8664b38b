#include "dlpipe/module.h"

#include <gtest/gtest.h>

#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"

namespace dlpipe::engine {
namespace {

// Smooth in both directions and coloured: the patches' elements depend on each other strongly.
Tensor smooth_images(int64_t count, int64_t side, int64_t channels) {
  Tensor images = Tensor::empty({count, side, side, channels});
  RandomStream random(7, 1);
  std::vector<double> shade(static_cast<size_t>(side * channels));
  float* out = images.data<float>();
  for (int64_t i = 0; i < count * side; ++i) {
    double value = random.normal();
    for (int64_t x = 0; x < side; ++x) {
      value = 0.8 * value + 0.6 * random.normal();
      for (int64_t c = 0; c < channels; ++c) {
        double& above = shade[static_cast<size_t>(x * channels + c)];
        above = 0.7 * above + 0.5 * value + 0.2 * random.normal();
        *out++ = static_cast<float>(above);
      }
    }
  }
  return images;
}

// The mean product of channels a and b of y [N,H,W,C].
double moment(const Tensor& y, int64_t a, int64_t b) {
  const std::vector<double> values = y.to_doubles();
  const auto channels = static_cast<size_t>(y.size(3));
  double sum = 0;
  for (size_t i = 0; i < values.size(); i += channels)
    sum += values[i + static_cast<size_t>(a)] * values[i + static_cast<size_t>(b)];
  return sum / static_cast<double>(values.size() / channels);
}

TEST(Whitening, OutputsOfTheFiltersHaveUnitMomentAndNoCorrelation) {
  const Tensor images = smooth_images(16, 12, 2);
  Tensor weight = Tensor::empty({10, 2, 3, 2});
  fill_whitening(weight, images, 1e-9);
  const NoGrad no_grad;
  const Tensor y = plain(conv2d(images, weight, Tensor(), {})).contiguous_copy();
  for (int64_t a = 0; a < 10; ++a) {
    for (int64_t b = 0; b < 10; ++b) {
      const double expected = a == b           ? 1.0
                              : a / 2 == b / 2 ? -1.0
                                               : 0.0;  // a pair is a filter and its negative
      EXPECT_NEAR(moment(y, a, b), expected, 1e-4) << a << ' ' << b;
    }
  }
}

TEST(Whitening, TakesTheStrongestDirectionsFirst) {
  const Tensor images = smooth_images(16, 12, 1);
  Tensor all = Tensor::empty({18, 1, 3, 3});
  Tensor two = Tensor::empty({2, 1, 3, 3});
  fill_whitening(all, images);
  fill_whitening(two, images);
  // Weaker directions need longer filters.
  const std::vector<double> filters = all.to_doubles();
  double former = 0;
  for (size_t o = 0; o < 18; o += 2) {
    double squares = 0;
    for (size_t i = 0; i < 9; ++i) squares += filters[o * 9 + i] * filters[o * 9 + i];
    EXPECT_GE(squares, former);
    former = squares;
  }
  EXPECT_EQ(two.to_doubles(), std::vector<double>(filters.begin(), filters.begin() + 18));
}

TEST(Whitening, EpsilonBoundsTheFiltersOfConstantImages) {
  Tensor weight = Tensor::empty({4, 1, 2, 2});
  fill_whitening(weight, Tensor::full({1, 4, 4, 1}, 0.0), 0.25);
  for (const double value : weight.to_doubles()) EXPECT_LE(std::abs(value), 2.0);
}

TEST(Whitening, RefusesWhatDoesNotFit) {
  Tensor odd = Tensor::empty({3, 1, 2, 2});
  Tensor many = Tensor::empty({10, 1, 2, 2});
  Tensor other = Tensor::empty({4, 3, 2, 2});
  const Tensor images = Tensor::full({1, 4, 4, 1}, 1.0);
  for (Tensor* weight : {&odd, &many, &other}) EXPECT_THROW(fill_whitening(*weight, images), Error);
}

}  // namespace
}  // namespace dlpipe::engine
