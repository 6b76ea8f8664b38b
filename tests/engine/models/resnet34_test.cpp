#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Resnet34, DoesWhatModelsDo) {
  check_model("resnet34", {4, 3, 32, 40, 1});
}

TEST(Resnet34, StateDictIsTorchvisions) {
  expect_torchvision_state_dict("resnet34");
  EXPECT_EQ(count_parameters("resnet34", {1000, 3, 224, 224, 0}), 21797672);
}

}  // namespace
}  // namespace dlpipe::engine
