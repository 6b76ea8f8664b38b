#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(LogOp, PassesEveryCheckOfItsRecord) {
  check_op("log");
}

}  // namespace dlpipe::engine
