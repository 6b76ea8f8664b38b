#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/ops/dropout.h"

namespace dlpipe::engine {

TEST(DropoutOp, IsKeyedBySeedStepAndCall) {
  const Tensor x = Tensor::full({10000}, 1.0);
  auto draw = [&](uint64_t seed, int64_t step, uint32_t call) {
    random_state() = {seed, step, call};
    return dropout(x, 0.25, true).to_doubles();
  };
  const std::vector<double> first = draw(1, 2, 3);
  EXPECT_EQ(random_state().call, 4u) << "the next random op of the step draws other numbers";
  EXPECT_EQ(draw(1, 2, 3), first);
  EXPECT_NE(draw(2, 2, 3), first);
  EXPECT_NE(draw(1, 3, 3), first);
  EXPECT_NE(draw(1, 2, 4), first);
}

// Of tensors with more than 2^32 blocks of four, too, which no test has memory for.
TEST(DropoutOp, EveryBlockHasACounterOfItsOwn) {
  constexpr uint64_t kBlock = (uint64_t{5} << 32) + 7;
  EXPECT_EQ(DropoutAttrs::counter(kBlock, 3), (PhiloxBlock{7, 5, 3, DropoutAttrs::kStream}));
}

TEST(DropoutOp, KeepsTheExpectedShareAndScalesIt) {
  random_state() = {5, 0, 0};
  const std::vector<double> y = dropout(Tensor::full({100000}, 1.0), 0.25, true).to_doubles();
  int64_t kept = 0;
  for (double value : y) {
    if (value != 0) {
      EXPECT_FLOAT_EQ(static_cast<float>(value), 4.0f / 3.0f);
      ++kept;
    }
  }
  // Standard deviation of the count is sqrt(1e5 * 0.25 * 0.75) = 137.
  EXPECT_NEAR(static_cast<double>(kept), 75000, 700);
}

TEST(DropoutOp, DoesNothingInEvaluation) {
  const Tensor x = Tensor::full({4}, 1.0);
  EXPECT_TRUE(same_tensor(dropout(x, 0.5, false), x));
  EXPECT_TRUE(same_tensor(dropout(x, 0.0, true), x));
  EXPECT_THROW(dropout(x, 1.0, true), Error);
}

// As a file may have it.
TEST(DropoutOp, AnyCallsProbabilityIsChecked) {
  const OpRecord& record = *value_or_throw(OpRegistry::builtin().find("dropout"))->record;
  const TensorSpec x = {{4}, DType::kF32};
  const bool defined = true;
  const auto infer = [&](double p) { record.infer({&x, 1}, {&defined, 1}, DropoutAttrs{p}); };
  EXPECT_NO_THROW(infer(0.5));
  for (const double p : {-0.5, 1.0, 1e30, std::nan("")}) EXPECT_THROW(infer(p), Error) << p;
}

}  // namespace dlpipe::engine
