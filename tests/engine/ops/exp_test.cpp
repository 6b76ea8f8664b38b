#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(ExpOp, PassesEveryCheckOfItsRecord) {
  check_op("exp");
}

}  // namespace dlpipe::engine
