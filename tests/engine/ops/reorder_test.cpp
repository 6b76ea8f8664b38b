#include <gtest/gtest.h>

#include "dlpipe/engine/ops.h"

namespace dlpipe::engine {

TEST(ReorderOp, PlainStaysPlain) {
  const Tensor x = Tensor::full({1, 2, 2, 16}, 3.0);
  EXPECT_EQ(reorder(x, Layout::kPlain).to_doubles(), x.to_doubles());
}

}  // namespace dlpipe::engine
