// Models whose weights ranks split compute what whole ones do, forward and backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "dlpipe/models.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/layers/split.h"
#include "tests/engine/collective/simulated_ranks.h"
#include "tests/engine/distance.h"

namespace dlpipe::engine {
namespace {

using test::on_ranks;

struct Case {
  const char* model;
  ModelArguments arguments;
};
const Case kGpt = {"gpt_char_tiny", {.classes = 13, .seed = 2, .length = 12}};
const Case kVit = {"vit_small_cifar", {.classes = 5, .height = 8, .width = 8, .seed = 2}};

std::shared_ptr<Module> build(const Case& one) {
  return value_or_throw(ModelRegistry::builtin().find(one.model))->build(one.arguments);
}

Tensor input(const ModelArguments& arguments) {
  RandomStream random(5, 1);
  if (arguments.length > 0) {
    std::vector<int64_t> ids(static_cast<size_t>(2 * arguments.length));
    for (int64_t& id : ids) id = random.below(static_cast<uint32_t>(arguments.classes));
    return Tensor::from<int64_t>(ids, {2, arguments.length});
  }
  const Shape shape = {2, arguments.height, arguments.width, arguments.channels};
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = random.uniform();
  return Tensor::from<float>(values, shape);
}

/// Logits as f32; the parameters keep their gradients.
Tensor pass(Module& model, const Case& one, DType low) {
  const UseAutocast autocast(low);
  const Tensor logits = cast(model(input(one.arguments)), DType::kF32);
  mean(logits * logits).backward();
  return logits;
}

/// The largest difference, as a share of the largest value.
double difference(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.shape(), expected.shape());
  return test::distance(got, expected);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0;
}

void expect_same_as_whole(const Case& one, int world, DType low, double tolerance, bool recomputes) {
  SCOPED_TRACE(dlpipe::concat(one.model, " over ", world, " ranks"));
  const auto whole = build(one);
  const Tensor expected = pass(*whole, one, low);
  const std::vector<NamedTensor> expected_parameters = whole->parameters();
  std::mutex mutex;
  std::vector<Tensor> replicated;  // gradients of the first rank that came here
  SimulatedNetwork network(world, {.seed = 1, .most_delay_us = 50});
  on_ranks(network, world, [&](Collective& ranks) {
    const auto model = build(one);
    model->split_over(ranks);
    if (recomputes) model->checkpoint_activations("blocks.*");
    EXPECT_LT(difference(pass(*model, one, low), expected), tolerance);
    const std::vector<NamedSplit> splits = model->splits();
    std::vector<Tensor> own;
    const std::vector<NamedTensor> parameters = model->parameters();
    ASSERT_EQ(parameters.size(), expected_parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      SCOPED_TRACE(parameters[i].name);
      const auto split = std::ranges::find_if(
          splits, [&](const NamedSplit& each) { return each.name == parameters[i].name; });
      Tensor grad = parameters[i].tensor.grad();
      if (split == splits.end()) {
        own.push_back(grad);
      } else {
        grad = whole_of(grad, split->split, split->size, ranks, "a gradient");
      }
      EXPECT_LT(difference(grad, expected_parameters[i].tensor.grad()), tolerance);
    }
    const std::lock_guard lock(mutex);
    if (replicated.empty()) replicated = own;
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(same_bits(own[i], replicated[i])) << i;
  });
}

// Sums of two halves in another order than one sum: a few units in the last place of f32, and of bf16, whose halves are rounded.
TEST(SplitModels, ComputeWhatWholeOnesDo) {
  expect_same_as_whole(kGpt, 2, DType::kF32, 1e-5, false);
  expect_same_as_whole(kGpt, 4, DType::kF32, 1e-5, false);
  expect_same_as_whole(kVit, 2, DType::kF32, 1e-5, false);
}

TEST(SplitModels, ComputeItWithActivationsMadeAgain) {
  expect_same_as_whole(kGpt, 2, DType::kF32, 1e-5, true);
}

TEST(SplitModels, ComputeItInBf16) {
  expect_same_as_whole(kGpt, 2, DType::kBF16, 5e-2, false);
}

TEST(SplitModels, KeepTheirShareOfTheWeights) {
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [](Collective& ranks) {
    const auto model = build(kGpt);
    const auto elements = [&] {
      int64_t all = 0;
      for (const NamedTensor& parameter : model->parameters()) all += parameter.tensor.elements();
      return all;
    };
    const int64_t before = elements();
    model->split_over(ranks);
    EXPECT_LT(elements(), before * 51 / 100);
  });
}

TEST(SplitModels, OfConvolutionsStayWhole) {
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [](Collective& ranks) {
    const auto model = build({"lenet", {.channels = 1, .height = 28, .width = 28}});
    model->split_over(ranks);
    EXPECT_TRUE(model->splits().empty());
  });
}

}  // namespace
}  // namespace dlpipe::engine
