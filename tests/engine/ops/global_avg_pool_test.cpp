#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(GlobalAvgPoolOp, PassesEveryCheckOfItsRecord) {
  check_op("global_avg_pool");
}

}  // namespace dlpipe::engine
