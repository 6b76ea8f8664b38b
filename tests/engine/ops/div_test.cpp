#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(DivOp, PassesEveryCheckOfItsRecord) {
  check_op("div");
}

}  // namespace dlpipe::engine
