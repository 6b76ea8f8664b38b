#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Vgg16, DoesWhatModelsDo) {
  check_model("vgg16", {4, 3, 32, 40, 1});
}

TEST(Vgg16, StateDictIsTorchvisions) {
  expect_torchvision_state_dict("vgg16");
}

TEST(Vgg16, RefusesImagesThatItsPoolsLeaveNothingOf) {
  EXPECT_THROW(count_parameters("vgg16", {10, 3, 31, 64, 0}), Error);
}

}  // namespace
}  // namespace dlpipe::engine
