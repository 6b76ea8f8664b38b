#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "dlpipe/random.h"
#include "tests/engine/optim/check_optimizer.h"

namespace dlpipe::engine {
namespace {

// Beside PyTorch's: tests/parity/optimizers_test.cpp.
TEST(Adafactor, DoesWhatOptimizersDo) {
  check_optimizer("adafactor", {});
}
TEST(Adafactor, DoesWhatOptimizersDoWithDecay) {
  OptimizerArguments arguments;
  arguments.weight_decay = 0.01;
  check_optimizer("adafactor", arguments);
}

TEST(Adafactor, KeepsRowsAndColumnsOfMatricesAlone) {
  std::vector<NamedTensor> parameters = {{"conv.weight", Tensor::full({20, 10, 3, 3}, 0.5)},
                                         {"conv.bias", Tensor::full({20}, 0.5)},
                                         {"thin", Tensor::full({6, 1}, 0.5)}};
  for (NamedTensor& parameter : parameters) {
    parameter.tensor.set_requires_grad(true);
    parameter.tensor.set_grad(Tensor::full(parameter.tensor.shape(), 2.0));
  }
  const auto optimizer = value_or_throw(find_optimizer("adafactor"))->build(parameters, {});
  optimizer->step(0.1);
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (const NamedTensor& state : optimizer->state()) sizes.emplace_back(state.name, state.tensor.elements());
  const std::vector<std::pair<std::string, int64_t>> expected = {
      {"steps", 1},    {"conv.weight.row", 20}, {"conv.weight.column", 90}, {"conv.bias.square", 20},
      {"thin.row", 6}, {"thin.column", 1}};
  EXPECT_EQ(sizes, expected);
  // Equal gradients are steps of the weights' size times the rate, whatever their size.
  for (const NamedTensor& parameter : parameters) {
    for (const double weight : parameter.tensor.to_doubles()) EXPECT_NEAR(weight, 0.5 - 0.1 * 0.5, 1e-6);
  }
}

// A C library's power would let moments fade otherwise with another version of it.
TEST(Adafactor, MomentsFadeByTheseBitsEverywhere) {
  std::vector<NamedTensor> parameters = {{"bias", Tensor::zeros({1})}};
  parameters[0].tensor.set_requires_grad(true);
  const auto optimizer = value_or_throw(find_optimizer("adafactor"))->build(parameters, {});
  uint64_t hash = 0;
  for (int step = 1; step < 5000; ++step) {
    parameters[0].tensor.set_grad(Tensor::full({1}, step % 2));
    optimizer->step(0.0);
    for (const NamedTensor& state : optimizer->state()) {
      if (state.name != "bias.square") continue;
      hash = philox_mix(hash, std::bit_cast<uint64_t>(state.tensor.item()));
    }
  }
  EXPECT_EQ(hash, 13581311438210257625u);
}

}  // namespace
}  // namespace dlpipe::engine
