#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Resnet18, DoesWhatModelsDo) {
  check_model("resnet18", {4, 3, 32, 40, 1});
}

TEST(Resnet18, StateDictIsTorchvisions) {
  expect_torchvision_state_dict("resnet18");
  EXPECT_EQ(count_parameters("resnet18", {1000, 3, 224, 224, 0}), 11689512);
}

}  // namespace
}  // namespace dlpipe::engine
