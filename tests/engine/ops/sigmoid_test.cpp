#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(SigmoidOp, PassesEveryCheckOfItsRecord) {
  check_op("sigmoid");
}

}  // namespace dlpipe::engine
