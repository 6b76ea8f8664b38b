#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(SiluOp, PassesEveryCheckOfItsRecord) {
  check_op("silu");
}

}  // namespace dlpipe::engine
