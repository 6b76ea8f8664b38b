#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(LogSoftmaxOp, PassesEveryCheckOfItsRecord) {
  check_op("log_softmax");
}

}  // namespace dlpipe::engine
