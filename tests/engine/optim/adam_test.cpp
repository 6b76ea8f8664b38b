#include "engine/optim/adam.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "dlpipe/random.h"
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

// A C library's power would give other corrections with another version of it, and another run.
TEST(Adam, CorrectsByTheseBitsEverywhere) {
  OptimizerArguments arguments;
  arguments.beta1 = 0.9;
  arguments.beta2 = 0.999;
  uint64_t hash = 0;
  for (int64_t t = 1; t < 20000; ++t) {
    const AdamStep step = adam_step(arguments, false, 0.01, t, {});
    hash = philox_mix(hash, std::bit_cast<uint32_t>(step.step_size));
    hash = philox_mix(hash, std::bit_cast<uint32_t>(step.root_scale));
  }
  EXPECT_EQ(hash, 16465531324706735309u);
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
