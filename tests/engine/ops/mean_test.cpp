#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(MeanOp, PassesEveryCheckOfItsRecord) {
  check_op("mean");
}

}  // namespace dlpipe::engine
