#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(ReluOp, PassesEveryCheckOfItsRecord) {
  check_op("relu");
}

}  // namespace dlpipe::engine
