#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(UnetSmall, DoesWhatModelsDo) {
  check_model("unet_small", {4, 1, 13, 8, 1});
}

}  // namespace
}  // namespace dlpipe::engine
