#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Resnet50, DoesWhatModelsDo) {
  check_model("resnet50", {4, 3, 32, 40, 1});
}

TEST(Resnet50, StateDictIsTorchvisions) {
  expect_torchvision_state_dict("resnet50");
  EXPECT_EQ(count_parameters("resnet50", {1000, 3, 224, 224, 0}), 25557032);
}

}  // namespace
}  // namespace dlpipe::engine
