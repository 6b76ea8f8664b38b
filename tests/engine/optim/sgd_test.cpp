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

TEST(Sgd, RefusesNesterovWithoutMomentum) {
  OptimizerArguments arguments;
  arguments.momentum = 0.0;
  arguments.nesterov = true;
  EXPECT_THROW(value_or_throw(find_optimizer("sgd"))->build({}, arguments), Error);
}

}  // namespace
}  // namespace dlpipe::engine
