#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(TanhOp, PassesEveryCheckOfItsRecord) {
  check_op("tanh");
}

}  // namespace dlpipe::engine
