#include <gtest/gtest.h>

#include "tests/engine/optim/check_optimizer.h"

namespace dlpipe::engine {
namespace {

TEST(AdamW, DoesWhatOptimizersDo) {
  check_optimizer("adamw", {.weight_decay = 0.01});
}

TEST(AdamW, DecaysWeightsWithoutAGradientSignal) {
  std::vector<NamedTensor> parameters = {{"w", Tensor::full({1}, 2.0)}};
  parameters[0].tensor.set_requires_grad(true);
  const auto optimizer = value_or_throw(find_optimizer("adamw"))->build(parameters, {.weight_decay = 0.1});
  parameters[0].tensor.set_grad(Tensor::zeros({1}));
  optimizer->step(0.5);
  EXPECT_FLOAT_EQ(static_cast<float>(parameters[0].tensor.item()), 2.0f * 0.95f);
}

}  // namespace
}  // namespace dlpipe::engine
