#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(GeluOp, PassesEveryCheckOfItsRecord) {
  check_op("gelu");
}

}  // namespace dlpipe::engine
