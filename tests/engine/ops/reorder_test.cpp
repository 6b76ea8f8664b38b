#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(ReorderOp, PassesEveryCheckOfItsRecord) {
  check_op("reorder");
}

}  // namespace dlpipe::engine
