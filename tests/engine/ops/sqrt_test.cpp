#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(SqrtOp, PassesEveryCheckOfItsRecord) {
  check_op("sqrt");
}

}  // namespace dlpipe::engine
