#include <gtest/gtest.h>

#include "dlpipe/ops.h"
#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(DetectorSmall, DoesWhatModelsDo) {
  check_model("detector_small", {4, 1, 37, 24, 1});
}

TEST(DetectorSmall, HasTheParametersOfItsLayers) {
  // A convolution of a to b channels and its norm; a stage has three.
  const auto unit = [](int64_t a, int64_t b) { return 9 * a * b + 2 * b; };
  int64_t count = unit(3, 16) + unit(192, 64) + 2 * unit(64, 64) + 65 * (7 + 4);
  for (const int64_t b : {32, 64, 128}) count += unit(b / 2, b) + 2 * unit(b, b);
  EXPECT_EQ(count_parameters("detector_small", {7, 3, 64, 64, 0}), count);
}

TEST(DetectorSmall, BeginsWithFewObjectsOfTwoCellsToEachSide) {
  const auto model =
      value_or_throw(ModelRegistry::builtin().find("detector_small"))->build({2, 3, 32, 32, 1});
  const NoGrad no_grad;
  model->eval();
  const Tensor y = plain((*model)(Tensor::full({1, 32, 32, 3}, 0.5, DType::kF32)));
  ASSERT_EQ(y.shape(), (Shape{1, 4, 4, 6}));
  const std::vector<double> values = y.to_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 6 < 2) {
      EXPECT_NEAR(values[i], -4.595, 0.5);
    } else {
      EXPECT_NEAR(values[i], 0.693, 0.5);
    }
  }
}

TEST(DetectorSmall, RefusesImagesThatVanishOnTheWay) {
  EXPECT_THROW(count_parameters("detector_small", {2, 3, 15, 32, 0}), Error);
}

}  // namespace
}  // namespace dlpipe::engine
