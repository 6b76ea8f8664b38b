#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(BatchNormOp, PassesEveryCheckOfItsRecord) {
  check_op("batch_norm");
}

}  // namespace dlpipe::engine
