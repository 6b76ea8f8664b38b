#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Mlp, DoesWhatModelsDo) {
  check_model("mlp", {5, 1, 9, 7, 1});
}

TEST(Mlp, HasThreeLinearLayers) {
  EXPECT_EQ(count_parameters("mlp", {10, 1, 28, 28, 0}), (784 + 1) * 512 + (512 + 1) * 256 + (256 + 1) * 10);
}

}  // namespace
}  // namespace dlpipe::engine
