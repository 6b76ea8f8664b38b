#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/ops.h"

namespace dlpipe::engine {

TEST(EmbeddingOp, NamesTheIdThatIsNoRow) {
  const Tensor ids = Tensor::from<int64_t>(std::vector<int64_t>{0, 7}, {2});
  try {
    embedding(Tensor::zeros({5, 2}), ids);
    FAIL() << "row 7 of 5 was read";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[embedding] id 7 at position 1 is not a row of a table of 5");
  }
}

}  // namespace dlpipe::engine
