#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(MaxPool2dOp, PassesEveryCheckOfItsRecord) {
  check_op("max_pool2d");
}

}  // namespace dlpipe::engine
