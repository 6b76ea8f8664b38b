#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/optim/check_optimizer.h"

namespace dlpipe::engine {
namespace {

OptimizerArguments for_matrices() {
  OptimizerArguments arguments;
  arguments.muon.patterns = {"*.weight"};
  return arguments;
}

TEST(Muon, DoesWhatOptimizersDo) {
  check_optimizer("muon", for_matrices());
}
TEST(Muon, DoesWhatOptimizersDoWithNesterovAndDecoupledDecay) {
  OptimizerArguments arguments = for_matrices();
  arguments.nesterov = true;
  arguments.decoupled = true;
  arguments.weight_decay = 0.01;
  check_optimizer("muon", arguments);
}
TEST(Muon, IsSgdWhereItTakesNoMatrix) {
  check_optimizer("muon", {});
}

/// The weights' change over one step of rate 1, as [rows][columns].
std::vector<std::vector<double>> first_update(const Shape& shape, const OptimizerArguments& arguments) {
  std::vector<NamedTensor> parameters = {{"conv.weight", random_tensor(shape, 1)}};
  parameters[0].tensor.set_requires_grad(true);
  const std::vector<double> before = parameters[0].tensor.to_doubles();
  parameters[0].tensor.set_grad(random_tensor(shape, 2));
  value_or_throw(find_optimizer("muon"))->build(parameters, arguments)->step(1.0);
  const std::vector<double> after = parameters[0].tensor.to_doubles();
  const auto rows = static_cast<size_t>(shape[0]);
  std::vector<std::vector<double>> update(rows, std::vector<double>(before.size() / rows));
  for (size_t i = 0; i < before.size(); ++i)
    update[i / update[0].size()][i % update[0].size()] = before[i] - after[i];
  return update;
}

/// Largest and smallest squared length of rows, and largest product of two different rows.
struct Gram {
  double largest = 0, smallest = 1e30, across = 0;
};
Gram gram_of(const std::vector<std::vector<double>>& rows) {
  Gram gram;
  for (size_t a = 0; a < rows.size(); ++a) {
    for (size_t b = 0; b <= a; ++b) {
      double product = 0;
      for (size_t i = 0; i < rows[a].size(); ++i) product += rows[a][i] * rows[b][i];
      EXPECT_TRUE(std::isfinite(product));
      if (a != b) gram.across = std::max(gram.across, std::abs(product));
      if (a == b)
        gram.largest = std::max(gram.largest, product), gram.smallest = std::min(gram.smallest, product);
    }
  }
  return gram;
}

TEST(Muon, UpdatesHaveNearlyOrthonormalRows) {
  const Gram gram = gram_of(first_update({12, 5, 3, 3}, for_matrices()));
  // The iteration leaves singular values between about 0.7 and 1.2.
  EXPECT_GT(gram.smallest, 0.45);
  EXPECT_LT(gram.largest, 1.5);
  EXPECT_LT(gram.across, 0.4);
}

TEST(Muon, OrColumnsScaledByTheSquareRootOfTheShape) {
  std::vector<std::vector<double>> update = first_update({48, 12}, for_matrices());
  std::vector<std::vector<double>> turned(12, std::vector<double>(48));
  for (size_t r = 0; r < 48; ++r) {
    for (size_t c = 0; c < 12; ++c) turned[c][r] = update[r][c] / 2;  // sqrt(48 / 12)
  }
  const Gram gram = gram_of(turned);
  EXPECT_GT(gram.smallest, 0.45);
  EXPECT_LT(gram.largest, 1.5);
  EXPECT_LT(gram.across, 0.4);
}

TEST(Muon, NormalizesWeightsToTheSquareRootOfTheirOutputs) {
  OptimizerArguments arguments = for_matrices();
  arguments.muon.normalize = true;
  std::vector<NamedTensor> parameters = {{"conv.weight", random_tensor({9, 4, 3, 3}, 1)}};
  parameters[0].tensor.set_requires_grad(true).set_grad(random_tensor({9, 4, 3, 3}, 2));
  value_or_throw(find_optimizer("muon"))->build(parameters, arguments)->step(0.0);
  double sum = 0;
  for (const double weight : parameters[0].tensor.to_doubles()) sum += weight * weight;
  EXPECT_NEAR(sum, 9.0, 1e-5);
}

TEST(Muon, RefusesVectorsAndArgumentsOutOfRange) {
  const OptimizerRecord& muon = *value_or_throw(find_optimizer("muon"));
  OptimizerArguments all;
  all.muon.patterns = {"*"};
  EXPECT_THROW(muon.build({{"fc.bias", Tensor::zeros({3})}}, all), Error);
  OptimizerArguments wrong = for_matrices();
  wrong.muon.momentum = 1.0;
  EXPECT_THROW(muon.build({}, wrong), Error);
  wrong = for_matrices();
  wrong.muon.iterations = 0;
  EXPECT_THROW(muon.build({}, wrong), Error);
}

}  // namespace
}  // namespace dlpipe::engine
