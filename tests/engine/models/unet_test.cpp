#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Unet, DoesWhatModelsDo) {
  check_model("unet", {3, 3, 16, 21, 1});
}

TEST(Unet, HasTheParametersOfItsLayers) {
  // Each double convolution of a to b channels: 9ab + 9bb weights and four numbers of norms for each of b; a 1x1 head with a bias.
  const auto pair = [](int64_t a, int64_t b) { return 9 * a * b + 9 * b * b + 4 * b; };
  int64_t count = pair(3, 32) + 32 * 2 + 2;
  for (const int64_t b : {32, 64, 128, 256}) count += pair(b, 2 * b) + pair(3 * b, b);
  EXPECT_EQ(count_parameters("unet", {2, 3, 32, 32, 0}), count);
}

TEST(Unet, RefusesImagesThatVanishOnTheWay) {
  EXPECT_THROW(count_parameters("unet", {2, 3, 15, 32, 0}), Error);
}

}  // namespace
}  // namespace dlpipe::engine
