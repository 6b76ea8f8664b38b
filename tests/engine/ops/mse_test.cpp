#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(MseOp, PassesEveryCheckOfItsRecord) {
  check_op("mse");
}

}  // namespace dlpipe::engine
