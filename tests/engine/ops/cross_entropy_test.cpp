#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/allocator.h"

namespace dlpipe::engine {

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

/// Bits and memory of what a cast of the logits by itself would give.
TEST(CrossEntropyOp, ReadsLowLogitsAsTheyAreAndKeepsNothingOfTheirSize) {
  constexpr int64_t kRows = 64, kClasses = 1031;
  std::vector<float> values(kRows * kClasses);
  std::vector<int64_t> targets(kRows);
  RandomStream random(3, 1);
  for (float& value : values) value = 8 * static_cast<float>(random.uniform_double()) - 4;
  for (int64_t& target : targets) target = random.below(kClasses);
  Tensor low = cast(Tensor::from<float>(values, {kRows, kClasses}), DType::kBF16);
  Tensor wide = cast(low, DType::kF32);
  low.set_requires_grad(true);
  wide.set_requires_grad(true);
  const size_t before = allocator_statistics().used_bytes;
  const Tensor loss = cross_entropy(low, labels(targets), Tensor(), 0.1);
  EXPECT_LT(allocator_statistics().used_bytes - before, low.size_bytes() / 8);
  const Tensor expected = cross_entropy(wide, labels(targets), Tensor(), 0.1);
  EXPECT_EQ(loss.dtype(), DType::kF32);
  EXPECT_EQ(loss.item(), expected.item());
  loss.backward();
  expected.backward();
  EXPECT_EQ(low.grad().dtype(), DType::kBF16);
  EXPECT_EQ(low.grad().to_doubles(), cast(wide.grad(), DType::kBF16).to_doubles());
}

// Masked logits: their probability is 0, and 0 times the infinite logarithm of it is no loss.
TEST(CrossEntropyOp, AClassThatIsImpossibleCountsForNothing) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const Backend backend : {Backend::kCpu, Backend::kReference}) {
    const UseBackend use(backend);
    Tensor logits = Tensor::from<float>(std::vector<float>{1, -inf, 1}, {1, 3});
    logits.set_requires_grad(true);
    const Tensor loss = cross_entropy(logits, labels({0}));
    EXPECT_NEAR(loss.item(), std::log(2.0), 1e-6) << static_cast<int>(backend);
    loss.backward();
    const std::vector<double> grad = logits.grad().to_doubles();
    EXPECT_NEAR(grad[0], -0.5, 1e-6);
    EXPECT_EQ(grad[1], 0);
    EXPECT_NEAR(grad[2], 0.5, 1e-6);
  }
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
