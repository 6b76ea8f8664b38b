#include <gtest/gtest.h>

#include "tests/engine/optim/check_optimizer.h"

namespace dlpipe::engine {
namespace {

TEST(Sgd, DoesWhatOptimizersDo) {
  check_optimizer("sgd", {});
}
TEST(Sgd, DoesWhatOptimizersDoWithoutMomentum) {
  OptimizerArguments arguments;
  arguments.momentum = 0.0;
  check_optimizer("sgd", arguments);
}
TEST(Sgd, DoesWhatOptimizersDoWithNesterovAndDecoupledDecay) {
  OptimizerArguments arguments;
  arguments.nesterov = true;
  arguments.decoupled = true;
  arguments.weight_decay = 0.01;
  check_optimizer("sgd", arguments);
}

// Momentum that nobody asked for would be as much memory as the parameters.
TEST(Sgd, KeepsNoMomentumWhereThereIsNone) {
  const auto entries = [](double momentum) {
    OptimizerArguments arguments;
    arguments.momentum = momentum;
    Tensor weight = Tensor::full({4}, 1.0);
    weight.set_requires_grad(true);
    const auto optimizer = value_or_throw(find_optimizer("sgd"))->build({{"weight", weight}}, arguments);
    weight.backward(Tensor::full({4}, 1.0));
    optimizer->step(0.1);
    return optimizer->state().size();
  };
  EXPECT_EQ(entries(0.9), entries(0.0) + 1);
}

TEST(Sgd, RefusesNesterovWithoutMomentum) {
  OptimizerArguments arguments;
  arguments.momentum = 0.0;
  arguments.nesterov = true;
  EXPECT_THROW(value_or_throw(find_optimizer("sgd"))->build({}, arguments), Error);
}

}  // namespace
}  // namespace dlpipe::engine
