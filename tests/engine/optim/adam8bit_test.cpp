#include <gtest/gtest.h>

#include <cmath>

#include "dlpipe/random.h"
#include "tests/engine/optim/check_optimizer.h"

namespace dlpipe::engine {
namespace {

TEST(Adam8bit, DoesWhatOptimizersDo) {
  check_optimizer("adam8bit", {});
}
TEST(Adam8bit, DoesWhatOptimizersDoWithDecoupledDecay) {
  OptimizerArguments arguments;
  arguments.weight_decay = 0.01;
  arguments.decoupled = true;
  check_optimizer("adam8bit", arguments);
}

Tensor noise(int64_t count, uint64_t key, double spread) {
  Tensor tensor = Tensor::empty({count});
  RandomStream random(11, key);
  for (int64_t i = 0; i < count; ++i) {
    const double size = std::pow(10.0, -spread * random.uniform_double());  // of very different sizes
    tensor.data<float>()[i] = static_cast<float>(size * (2.0 * random.uniform_double() - 1.0));
  }
  return tensor;
}

TEST(Adam8bit, KeepsTwoBytesAWeight) {
  std::vector<NamedTensor> parameters = {{"fc.weight", Tensor::zeros({100, 1024})}};
  parameters[0].tensor.set_requires_grad(true).set_grad(Tensor::full({100, 1024}, 1.0));
  const auto optimizer = value_or_throw(find_optimizer("adam8bit"))->build(parameters, {});
  optimizer->step(0.1);
  size_t bytes = 0;
  for (const NamedTensor& state : optimizer->state()) bytes += state.tensor.size_bytes();
  EXPECT_EQ(bytes, 8u + 102400u * 2 + 2 * 400 * 4);
}

/// Root mean square of the difference between adam8bit's weights and adam's after `steps` on the same
/// gradients, of the distance that adam's have come.
double distance_from_adam(int steps, double spread) {
  constexpr int64_t kCount = 3000;
  std::vector<NamedTensor> exact = {{"w", Tensor::zeros({kCount})}},
                           rounded = {{"w", Tensor::zeros({kCount})}};
  const auto adam = value_or_throw(find_optimizer("adam"))->build(exact, {});
  const auto adam8bit = value_or_throw(find_optimizer("adam8bit"))->build(rounded, {});
  const Tensor signal = noise(kCount, 1, spread);
  for (int step = 0; step < steps; ++step) {
    Tensor gradient = noise(kCount, 2 + static_cast<uint64_t>(step), 0.0);
    for (int64_t i = 0; i < kCount; ++i)
      gradient.data<float>()[i] = signal.data<float>()[i] * (1.0f + gradient.data<float>()[i]);
    for (NamedTensor* weights : {exact.data(), rounded.data()})
      weights->tensor.set_requires_grad(true).set_grad(gradient.clone());
    adam->step(0.01);
    adam8bit->step(0.01);
  }
  double difference = 0, way = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double a = exact[0].tensor.data<float>()[i], b = rounded[0].tensor.data<float>()[i];
    difference += (a - b) * (a - b);
    way += a * a;
  }
  return std::sqrt(difference / way);
}

TEST(Adam8bit, GoesNearlyTheWayOfAdam) {
  EXPECT_LT(distance_from_adam(1, 0.0), 1e-7) << "nothing has been rounded yet";
  // Both 5 %; with rounding to nearest 6 and 5.
  EXPECT_LT(distance_from_adam(200, 0.0), 0.08);
  EXPECT_LT(distance_from_adam(200, 2.0), 0.08) << "gradients from 1 to 0.01 in one block";
}

// An average that moves by a thousandth a step must not stand still in numbers 6 % apart: rounded to nearest,
// it stays at 0.61.
TEST(Adam8bit, SlowAveragesMove) {
  constexpr int64_t kCount = 512;
  std::vector<NamedTensor> parameters = {{"w", Tensor::zeros({kCount})}};
  const auto optimizer = value_or_throw(find_optimizer("adam8bit"))->build(parameters, {});
  const auto step = [&](double gradient, int times) {
    for (int i = 0; i < times; ++i) {
      parameters[0].tensor.set_requires_grad(true).set_grad(Tensor::full({kCount}, gradient));
      parameters[0].tensor.grad().data<float>()[0] = 1.0f;  // keeps the block's scale
      optimizer->step(0.0);
    }
  };
  step(1.0, 10);
  step(0.0, 700);
  // sqrt(0.999^700) of where they were.
  double mean = 0;
  const auto state = optimizer->state();
  ASSERT_EQ(state[3].name, "w.root");
  for (int64_t i = 1; i < 256; ++i) {
    const auto code = state[3].tensor.data<uint8_t>()[i];
    mean += std::ldexp(1.0 + (code % 16) / 16.0, code / 16) / 255;
  }
  const double begin = std::sqrt(1 - std::pow(0.999, 10)), block = std::sqrt(1 - std::pow(0.999, 710));
  const double largest = std::ldexp(1.0 + 15 / 16.0, 15);
  EXPECT_NEAR(mean / largest, begin * std::sqrt(std::pow(0.999, 700)) / block, 0.01);
}

}  // namespace
}  // namespace dlpipe::engine
