#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(SubOp, PassesEveryCheckOfItsRecord) {
  check_op("sub");
}

}  // namespace dlpipe::engine
