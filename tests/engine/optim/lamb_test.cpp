#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/optim/check_optimizer.h"

namespace dlpipe::engine {
namespace {

TEST(Lamb, DoesWhatOptimizersDo) {
  check_optimizer("lamb", {.weight_decay = 0.01});
}
TEST(Lamb, DoesWhatOptimizersDoWithoutDecay) {
  check_optimizer("lamb", {.epsilon = 1e-6});
}

/// Algorithm 2 of the paper over one tensor, in f64.
class Formula {
 public:
  Formula(std::vector<double> weights, const OptimizerArguments& arguments, bool adapts)
      : arguments_(arguments),
        adapts_(adapts),
        weights_(std::move(weights)),
        mean_(weights_.size()),
        square_(weights_.size()) {}

  void step(double lr, const std::vector<double>& gradients) {
    const OptimizerArguments& a = arguments_;
    ++t_;
    std::vector<double> updates(weights_.size());
    double weight_squares = 0, update_squares = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      mean_[i] = a.beta1 * mean_[i] + (1 - a.beta1) * gradients[i];
      square_[i] = a.beta2 * square_[i] + (1 - a.beta2) * gradients[i] * gradients[i];
      const double mean = mean_[i] / (1 - std::pow(a.beta1, t_));
      const double root = std::sqrt(square_[i] / (1 - std::pow(a.beta2, t_)));
      updates[i] = mean / (root + a.epsilon) + (adapts_ ? a.weight_decay : 0.0) * weights_[i];
      weight_squares += weights_[i] * weights_[i];
      update_squares += updates[i] * updates[i];
    }
    const bool both = weight_squares > 0 && update_squares > 0;
    const double ratio = adapts_ && both ? std::sqrt(weight_squares / update_squares) : 1.0;
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] -= lr * ratio * updates[i];
  }
  const std::vector<double>& weights() const { return weights_; }

 private:
  OptimizerArguments arguments_;
  bool adapts_;
  int t_ = 0;
  std::vector<double> weights_, mean_, square_;
};

struct LambCase {
  const char* name;
  OptimizerArguments arguments;
  bool vector_adapts;
};

TEST(Lamb, IsThePapersFormula) {
  const std::vector<LambCase> cases = {
      {"no decay", {}, true},
      {"decay", {.weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6}, true},
      {"vectors spared", {.weight_decay = 0.1, .decay_vectors = false}, false}};
  for (const LambCase& c : cases) {
    SCOPED_TRACE(c.name);
    // More than a slice of elements, a vector, and weights that begin at zero as a bias does.
    std::vector<NamedTensor> parameters = {{"fc.weight", random_tensor({131, 257}, 1)},
                                           {"fc.bias", random_tensor({131}, 2)},
                                           {"fc2.bias", Tensor::zeros({7})}};
    std::vector<Formula> expected;
    for (NamedTensor& parameter : parameters) {
      parameter.tensor.set_requires_grad(true);
      expected.emplace_back(parameter.tensor.to_doubles(), c.arguments,
                            parameter.tensor.rank() > 1 || c.vector_adapts);
    }
    const auto optimizer = value_or_throw(find_optimizer("lamb"))->build(parameters, c.arguments);
    for (uint64_t step = 0; step < 6; ++step) {
      const double lr = 0.1 / static_cast<double>(1 + step);
      for (size_t i = 0; i < parameters.size(); ++i) {
        parameters[i].tensor.set_grad(random_tensor(parameters[i].tensor.shape(), 10 + 3 * step + i));
        expected[i].step(lr, parameters[i].tensor.grad().to_doubles());
      }
      optimizer->step(lr);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<double> got = parameters[i].tensor.to_doubles();
      // f32 moments and six roundings of weights below 2.
      for (size_t k = 0; k < got.size(); ++k)
        ASSERT_NEAR(got[k], expected[i].weights()[k], 2e-6) << parameters[i].name << " " << k;
    }
  }
}

// The factor makes a step as long as the rate times the weights, whatever the gradients' size.
TEST(Lamb, StepsAreRelativeToTheWeights) {
  for (const float size : {1e-4f, 1e4f}) {
    std::vector<NamedTensor> parameters = {{"w", random_tensor({40, 30}, 1)}};
    parameters[0].tensor.set_requires_grad(true);
    const std::vector<double> before = parameters[0].tensor.to_doubles();
    Tensor gradient = random_tensor({40, 30}, 2);
    for (int64_t i = 0; i < gradient.elements(); ++i) gradient.data<float>()[i] *= size;
    parameters[0].tensor.set_grad(gradient);
    value_or_throw(find_optimizer("lamb"))->build(parameters, {})->step(0.01);
    const std::vector<double> after = parameters[0].tensor.to_doubles();
    double moved = 0, norm = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      moved += (after[i] - before[i]) * (after[i] - before[i]);
      norm += before[i] * before[i];
    }
    EXPECT_NEAR(std::sqrt(moved / norm), 0.01, 1e-5);
  }
}

}  // namespace
}  // namespace dlpipe::engine
