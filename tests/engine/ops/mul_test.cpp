#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(MulOp, PassesEveryCheckOfItsRecord) {
  check_op("mul");
}

}  // namespace dlpipe::engine
