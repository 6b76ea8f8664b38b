#include <gtest/gtest.h>

#include "base/text.h"
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

Tensor trained(double value, Shape shape) {
  Tensor weight = Tensor::full(shape, value);
  weight.set_requires_grad(true);
  return weight;
}

// As constants of ONNX files may be called.
TEST(Sgd, ResumesParametersWithAnAtInTheirNames) {
  const Tensor weight = trained(1.0, {4});
  const auto build = [&] { return value_or_throw(find_optimizer("sgd"))->build({{"a@b", weight}}, {}); };
  const auto optimizer = build();
  weight.backward(Tensor::full({4}, 1.0));
  optimizer->step(0.1);
  const std::vector<NamedTensor> state = optimizer->state();
  ASSERT_EQ(state.size(), 2u);
  const auto resumed = build();
  resumed->load_state(state);
  EXPECT_EQ(resumed->state()[1].tensor.to_doubles(), state[1].tensor.to_doubles());
}

TEST(Sgd, RefusesAPartOfTheStateThatComesTwice) {
  const Tensor weight = trained(1.0, {2 * kShareUnit});
  const auto optimizer = value_or_throw(find_optimizer("sgd"))->build({{"w", weight}}, {});
  const int64_t step = 1;
  const NamedTensor steps = {"steps", Tensor::from<int64_t>({&step, 1}, {1})};
  const NamedTensor half = {"w.momentum@0", Tensor::full({kShareUnit}, 1.0)};
  const NamedTensor rest = {concat("w.momentum@", kShareUnit), Tensor::full({kShareUnit}, 2.0)};
  EXPECT_THROW(optimizer->load_state({steps, half, half}), Error);
  optimizer->load_state({steps, rest, half});
  EXPECT_EQ(optimizer->state()[1].tensor.to_doubles().front(), 1.0);
  EXPECT_EQ(optimizer->state()[1].tensor.to_doubles().back(), 2.0);
}

TEST(Sgd, RefusesNesterovWithoutMomentum) {
  OptimizerArguments arguments;
  arguments.momentum = 0.0;
  arguments.nesterov = true;
  EXPECT_THROW(value_or_throw(find_optimizer("sgd"))->build({}, arguments), Error);
}

}  // namespace
}  // namespace dlpipe::engine
