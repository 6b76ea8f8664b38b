#include <gtest/gtest.h>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Airbench, DoesWhatModelsDo) {
  check_model("airbench", {4, 3, 16, 24, 1});
}

TEST(Airbench, HasSixConvolutionsBehindTheStem) {
  // stem 24*12+24, filters 9*(24*64+64*64+64*256+3*256*256), norms 2*(2*64+4*256), head 2560
  EXPECT_EQ(count_parameters("airbench", {10, 3, 32, 32, 0}), 312 + 9 * 218624 + 2304 + 2560);
}

}  // namespace
}  // namespace dlpipe::engine
