#include <gtest/gtest.h>

#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(LayerNormOp, PassesEveryCheckOfItsRecord) {
  check_op("layer_norm");
}

}  // namespace dlpipe::engine
