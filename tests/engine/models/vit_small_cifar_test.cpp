#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(VitSmallCifar, DoesWhatModelsDo) {
  check_model("vit_small_cifar", {4, 3, 8, 12, 1});
}

TEST(VitSmallCifar, HasTheParametersOfItsPlan) {
  const int64_t block =
      2 * 2 * 384 + (384 + 1) * 3 * 384 + (384 + 1) * 384 + (384 + 1) * 1536 + (1536 + 1) * 384;
  EXPECT_EQ(count_parameters("vit_small_cifar", {10, 3, 32, 32, 0}),
            49 * 384 + 64 * 384 + 12 * block + 2 * 384 + 385 * 10);
}

}  // namespace
}  // namespace dlpipe::engine
