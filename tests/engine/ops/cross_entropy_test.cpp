#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "dlpipe/engine/ops.h"
#include "tests/engine/check_op.h"

namespace dlpipe::engine {

TEST(CrossEntropyOp, PassesEveryCheckOfItsRecord) {
  check_op("cross_entropy");
}

namespace {

const std::vector<float> kLogits = {1, 2, 3, 0, 0, 0};

Tensor labels(std::vector<int64_t> values) {
  return Tensor::from<int64_t>(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST(CrossEntropyOp, SamplesOfWeightZeroCountForNothingWhateverTheirLabel) {
  Tensor logits = Tensor::from<float>(kLogits, {2, 3});
  logits.set_requires_grad(true);
  const Tensor weight = Tensor::from<float>(std::vector<float>{1, 0}, {2});
  const Tensor loss = cross_entropy(logits, labels({2, -1}), weight);
  EXPECT_NEAR(loss.item(), std::log(1 + std::exp(-1.0) + std::exp(-2.0)), 1e-6);
  loss.backward();
  const std::vector<double> grad = logits.grad().to_doubles();
  EXPECT_NE(grad[0], 0);
  EXPECT_EQ(grad[3], 0);
  EXPECT_EQ(grad[5], 0);
}

TEST(CrossEntropyOp, OfNoWeightAtAllIsZeroWithoutGradient) {
  Tensor logits = Tensor::from<float>(kLogits, {2, 3});
  logits.set_requires_grad(true);
  const Tensor loss = cross_entropy(logits, labels({0, 0}), Tensor::zeros({2}));
  EXPECT_EQ(loss.item(), 0);
  loss.backward();
  EXPECT_EQ(logits.grad().to_doubles(), std::vector<double>(6, 0.0));
}

TEST(CrossEntropyOp, NamesTheLabelThatIsNoClass) {
  try {
    cross_entropy(Tensor::from<float>(kLogits, {2, 3}), labels({0, 3}));
    FAIL() << "class 3 of 3";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[cross_entropy] label 3 of sample 1 is not one of 3 classes"),
              std::string::npos);
  }
}

}  // namespace dlpipe::engine
