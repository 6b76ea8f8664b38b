#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"

namespace dlpipe::engine {

// Two images of 2x3 grey pixels, then three samples of them, by hand.
TEST(BatchPrepOp, AveragesAndCutsByHand) {
  const std::vector<uint8_t> bytes = {10, 20, 30, 40, 50, 60, 0, 0, 0, 100, 100, 100, 1, 2, 3, 4, 5, 6};
  BatchPrep prep;
  prep.scale.fill(2);
  prep.bias.fill(-1);
  prep.mix = {{1, 0.75f, {}}, {2, 0.5f, {1, 0, 2, 1}}, {}};
  const std::vector<double> expected = {14, 29, 44, 109, 124, 139,  // 2 (0.75 own + 0.25 other) - 1
                                        -1, 3,  5,  199, 199, 199,  // 2 and 3 in the first row
                                        1,  3,  5,  7,   9,   11};  // by itself
  const Tensor images = Tensor::from<uint8_t>(bytes, {3, 2, 3, 1});
  EXPECT_EQ(batch_prep(images, prep).to_doubles(), expected);
  const UseBackend reference(Backend::kReference);
  EXPECT_EQ(batch_prep(images, prep).to_doubles(), expected);
}

TEST(BatchPrepOp, MixesAreTheReferencesBits) {
  BatchPrep prep;
  prep.scale = {0.017f, 0.0175f, 0.0174f, 0};
  prep.bias = {-2.1f, -2.03f, -1.8f, 0};
  RandomStream random(1, 2);
  std::vector<uint8_t> bytes(5 * 19 * 23 * 3);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next_u32());
  const Tensor images = Tensor::from<uint8_t>(bytes, {5, 19, 23, 3});
  prep.mix = {{1, 0.3f, {}}, {2, 0.123f, {}}, {0, 0.5f, {3, 4, 17, 15}}, {}, {3, 0.9f, {22, 18, 1, 1}}};
  const std::vector<double> fast = batch_prep(images, prep).to_doubles();
  const UseBackend reference(Backend::kReference);
  EXPECT_EQ(batch_prep(images, prep).to_doubles(), fast);
}

TEST(BatchPrepOp, RefusesMixesThatDoNotFit) {
  const Tensor images = Tensor::zeros({2, 4, 6, 3}, DType::kU8);
  const auto message = [&](std::vector<SampleMix> mix) -> std::string {
    BatchPrep prep;
    prep.mix = std::move(mix);
    try {
      batch_prep(images, prep);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({{1, 0.5f, {}}, {0, 0.5f, {0, 0, 6, 4}}}), "");
  EXPECT_NE(message({{1, 0.5f, {}}}).find("[batch_prep] expected a mix for each of 2 samples, got 1"),
            std::string::npos);
  EXPECT_NE(message({{2, 0.5f, {}}, {}}).find("expected a partner from 0 to 1 for sample 0, got 2"),
            std::string::npos);
  EXPECT_NE(message({{}, {0, 0.5f, {4, 0, 3, 1}}}).find("a box inside 6x4 pixels for sample 1, got 3x1"),
            std::string::npos);
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
