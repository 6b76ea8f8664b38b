#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(AddOp, PassesEveryCheckOfItsRecord) {
  check_op("add");
}

}  // namespace dlpipe::engine
