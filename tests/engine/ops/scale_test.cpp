#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(ScaleOp, PassesEveryCheckOfItsRecord) {
  check_op("scale");
}

}  // namespace dlpipe::engine
