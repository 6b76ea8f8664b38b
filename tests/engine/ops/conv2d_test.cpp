#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(Conv2dOp, PassesEveryCheckOfItsRecord) {
  check_op("conv2d");
}

}  // namespace dlpipe::engine
