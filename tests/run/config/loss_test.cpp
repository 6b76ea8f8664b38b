#include "dlpipe/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"

namespace dlpipe::run {

using engine::Tensor;

static Tensor floats(std::vector<float> values, const Shape& shape) {
  return Tensor::from(std::span<const float>(values), shape);
}
static Tensor labels(std::vector<int64_t> values) {
  return Tensor::from(std::span<const int64_t>(values), {static_cast<int64_t>(values.size())});
}

TEST(Loss, MseIsTheMeanSquareToTheOneHotVector) {
  const LossRecord* mse = *find_loss("mse");
  const Tensor logits = floats({1, 0, 0.5f, 0.5f}, {2, 2});
  // Row 0 with label 1: (1-0)^2 + (0-1)^2 = 2; row 1 with label 0: 0.25 + 0.25 = 0.5; over 4 numbers.
  EXPECT_NEAR(mse->compute(logits, labels({1, 0}), Tensor(), {}).item(), 2.5 / 4, 1e-6);
  // Row 0 left out: 0.5 over 2 numbers.
  EXPECT_NEAR(mse->compute(logits, labels({1, 0}), floats({0, 1}, {2}), {}).item(), 0.25, 1e-6);
}

TEST(Loss, ALabelThatIsNoClassIsRefused) {
  const Tensor logits = floats({1, 0, 0.5f, 0.5f}, {2, 2});
  for (const char* const name : {"mse", "cross_entropy"}) {
    const LossRecord* loss = *find_loss(name);
    try {
      loss->compute(logits, labels({1, 2}), Tensor(), {});
      ADD_FAILURE() << name << " takes class 2 of 2";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(concat("[", name, "] label 2 of sample 1 is not one of 2")),
                std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(std::isfinite(loss->compute(logits, labels({1, -1}), floats({1, 0}, {2}), {}).item()))
        << name;
  }
}

TEST(Loss, CrossEntropySmoothsLabelsWhenAsked) {
  const LossRecord* loss = *find_loss("cross_entropy");
  const Tensor logits = floats({std::log(3.0f), 0}, {1, 2});  // probabilities 3/4 and 1/4
  EXPECT_NEAR(loss->compute(logits, labels({0}), Tensor(), {}).item(), -std::log(0.75), 1e-6);
  const double smooth = -(0.95 * std::log(0.75) + 0.05 * std::log(0.25));
  EXPECT_NEAR(loss->compute(logits, labels({0}), Tensor(), {0.1}).item(), smooth, 1e-6);
}

TEST(Loss, AnUnknownNameSuggestsTheNearest) {
  const auto loss = find_loss("cross_entrpy");
  ASSERT_FALSE(loss.ok());
  EXPECT_NE(loss.status().message().find("did you mean 'cross_entropy'?"), std::string::npos);
}

TEST(Loss, AProgramAddsItsOwnUnderANewName) {
  static constexpr LossRecord kOwn = {"own", "own", nullptr};
  static constexpr LossRecord kTaken = {"mse", "own", nullptr};
  LossRegistry losses = LossRegistry::builtin();
  losses.add(kOwn);
  EXPECT_EQ(*losses.find("own"), &kOwn);
  EXPECT_FALSE(find_loss("own").ok());  // the built-in ones are as they were
  EXPECT_THROW(losses.add(kTaken), Error);
}

}  // namespace dlpipe::run
