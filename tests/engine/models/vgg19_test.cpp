#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

// Its parts are vgg16's; what is its own is how many. torchvision's has 143,667,240 parameters at 224x224,
// where the classifier sees 49 pixels instead of one.
TEST(Vgg19, HasTorchvisionsParameters) {
  EXPECT_EQ(count_parameters("vgg19", {1000, 3, 32, 32, 0}), 143667240 - 48 * 512 * 4096);
}

}  // namespace
}  // namespace dlpipe::engine
