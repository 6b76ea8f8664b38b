#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(AvgPool2dOp, PassesEveryCheckOfItsRecord) {
  check_op("avg_pool2d");
}

}  // namespace dlpipe::engine
