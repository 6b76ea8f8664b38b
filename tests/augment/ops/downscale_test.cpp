#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Downscale, GivesPillowsPixels) {
  expect_golden("downscale");
}

}  // namespace
}  // namespace dlpipe::augment
