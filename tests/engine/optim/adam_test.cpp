#include <gtest/gtest.h>

#include "tests/engine/optim/check_optimizer.h"

namespace dlpipe::engine {
namespace {

TEST(Adam, DoesWhatOptimizersDo) {
  check_optimizer("adam", {});
}

TEST(Adam, FirstStepIsTheLearningRateWhateverTheGradientsSize) {
  for (const double size : {1e-3, 1.0, 1e3}) {
    std::vector<NamedTensor> parameters = {{"w", Tensor::zeros({1})}};
    parameters[0].tensor.set_requires_grad(true);
    const auto optimizer = value_or_throw(find_optimizer("adam"))->build(parameters, {});
    parameters[0].tensor.set_grad(Tensor::full({1}, size));
    optimizer->step(0.01);
    EXPECT_NEAR(parameters[0].tensor.item(), -0.01, 1e-6) << size;
  }
}

TEST(Adam, RefusesArgumentsOutOfRange) {
  const OptimizerRecord& adam = *value_or_throw(find_optimizer("adam"));
  OptimizerArguments arguments;
  arguments.beta1 = 1.0;
  EXPECT_THROW(adam.build({}, arguments), Error);
  arguments = {};
  arguments.epsilon = 0.0;
  EXPECT_THROW(adam.build({}, arguments), Error);
}

}  // namespace
}  // namespace dlpipe::engine
