#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/engine/ops.h"
#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(BatchPrepOp, PassesEveryCheckOfItsRecord) {
  check_op("batch_prep");
}

TEST(BatchPrepOp, RefusesMixingByName) {
  BatchPrep prep;
  prep.mix = {{1, 0.5f, {}}, {0, 0.5f, {}}};
  const Tensor images = Tensor::zeros({2, 4, 4, 3}, DType::kU8);
  try {
    batch_prep(images, prep);
    FAIL() << "mixup was ignored";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[batch_prep] sample 0 asks to be mixed"), std::string::npos);
  }
}

TEST(BatchPrepOp, ReadsABorrowedSlotInPlace) {
  std::vector<uint8_t> slot(2 * 2 * 2 * 3, 51);
  BatchPrep prep;
  prep.scale = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f, 0};
  const Tensor y = batch_prep(Tensor::borrow(slot.data(), {2, 2, 2, 3}, DType::kU8), prep);
  EXPECT_EQ(y.dtype(), DType::kF32);
  EXPECT_NEAR(y.to_doubles()[0], 0.2, 1e-7);
}

}  // namespace dlpipe::engine
