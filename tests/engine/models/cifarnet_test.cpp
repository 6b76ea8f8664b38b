#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Cifarnet, DoesWhatModelsDo) {
  check_model("cifarnet", {4, 3, 16, 24, 1});
}

TEST(Cifarnet, HasSixConvolutionsBehindTheStem) {
  EXPECT_EQ(count_parameters("cifarnet", {10, 3, 32, 32, 0}), 1161282);
}

}  // namespace
}  // namespace dlpipe::engine
