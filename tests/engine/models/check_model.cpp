#include "tests/engine/models/check_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "dlpipe/ops.h"
#include "dlpipe/optim.h"
#include "dlpipe/random.h"
#include "tests/base/test_file.h"

namespace dlpipe::engine {
namespace {

Tensor random_input(const ModelArguments& arguments, int64_t count) {
  Tensor input = blank_input(arguments, count);
  RandomStream random(arguments.seed, 99);
  for (int64_t i = 0; i < input.elements(); ++i) {
    if (input.dtype() == DType::kI64) {
      input.data<int64_t>()[i] = random.below(static_cast<uint32_t>(arguments.classes));
    } else {
      input.data<float>()[i] = static_cast<float>(random.normal());
    }
  }
  return input;
}

Shape output_of(const ModelRecord& record, const ModelArguments& arguments, int64_t count) {
  const auto cells = [&](int64_t extent) { return (extent + record.boxes.stride - 1) / record.boxes.stride; };
  switch (record.output) {
    case ModelOutput::kPixels:
      return {count, arguments.height, arguments.width, arguments.classes};
    case ModelOutput::kBoxes:
      return {count, cells(arguments.height), cells(arguments.width), arguments.classes + 4};
    case ModelOutput::kImage:
      break;
  }
  return {count * std::max<int64_t>(1, arguments.length), arguments.classes};
}

/// [rows, classes]: of a model that answers each pixel or cell, one behind the other.
Tensor logits_of(Module& model, const Tensor& x) {
  const Tensor y = model(x);
  return y.rank() == 2 ? y : reshape(plain(y), {y.elements() / y.size(-1), y.size(-1)});
}

Tensor alternating_labels(const ModelArguments& arguments, int64_t count) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(i % arguments.classes);
  return Tensor::from<int64_t>(labels, {count});
}

bool same(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.tensor.shape() == b.tensor.shape() && a.tensor.dtype() == b.tensor.dtype() &&
         std::memcmp(a.tensor.raw(), b.tensor.raw(), a.tensor.size_bytes()) == 0;
}

void expect_seed_decides(const Module& model, const Module& twin, const Module& other) {
  const auto a = model.state_dict();
  const auto b = twin.state_dict();
  const auto c = other.state_dict();
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.size(), c.size());
  bool differs = false;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(same(a[i], b[i])) << a[i].name;
    differs = differs || !same(a[i], c[i]);
  }
  EXPECT_TRUE(differs);
}

// One step against the gradient lowers the loss by what the gradient says. The step is as long as lowers it
// by a thousandth: with batch norm over few values a network's curvature leaves no fixed rate that suits
// every model.
void expect_learns(Module& model, const ModelArguments& arguments) {
  constexpr int64_t kBatch = 8;
  const Tensor x = random_input(arguments, kBatch);
  const RandomState drawn = random_state();
  const Tensor logits = logits_of(model, x);
  const Tensor y = alternating_labels(arguments, logits.size(0));
  const Tensor loss = cross_entropy(logits, y);
  loss.backward();
  double squares = 0.0;
  for (const NamedTensor& parameter : model.parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    for (const double value : parameter.tensor.grad().to_doubles()) squares += value * value;
  }
  ASSERT_TRUE(std::isfinite(squares));
  const double expected_fall = 1e-3 * loss.item();
  OptimizerArguments plain;
  plain.momentum = 0.0;
  value_or_throw(find_optimizer("sgd"))->build(model.parameters(), plain)->step(expected_fall / squares);
  const NoGrad no_grad;
  random_state() = drawn;  // dropout drops the same
  EXPECT_NEAR(loss.item() - cross_entropy(logits_of(model, x), y).item(), expected_fall, 0.3 * expected_fall);
}

void expect_batch_independent(Module& model, const ModelArguments& arguments) {
  const NoGrad no_grad;
  model.eval();
  const Tensor pair = random_input(arguments, 2);
  const Tensor alone = slice(pair, 0, 1, 2);
  const std::vector<double> together = model(pair).to_doubles();
  const std::vector<double> single = model(alone).to_doubles();
  ASSERT_EQ(2 * single.size(), together.size());
  for (size_t i = 0; i < single.size(); ++i) {
    const double expected = together[single.size() + i];
    EXPECT_TRUE(std::isfinite(expected));
    // Another batch may take other slices or kernels: rounding only.
    EXPECT_NEAR(single[i], expected, 1e-4 * (1.0 + std::fabs(expected)));
  }
}

/// Loss and gradients of one step.
std::vector<std::vector<double>> step_of(Module& model, const ModelArguments& arguments) {
  random_state() = {3, 0, 0};
  const Tensor logits = logits_of(model, random_input(arguments, 2));
  const Tensor loss = cross_entropy(logits, alternating_labels(arguments, logits.size(0)));
  loss.backward();
  std::vector<std::vector<double>> all = {loss.to_doubles()};
  for (const NamedTensor& parameter : model.parameters()) all.push_back(parameter.tensor.grad().to_doubles());
  return all;
}

// A hook wants what lies between a product and its activation, so that they are two ops then.
void expect_activations_alone_are_the_same(const ModelRecord& record, const ModelArguments& arguments) {
  const auto model = record.build(arguments), watched = record.build(arguments);
  for (const Module::Named& named : watched->modules())
    named.module->register_forward_hook([](Module&, const Tensor&, const Tensor&) {});
  EXPECT_EQ(step_of(*watched, arguments), step_of(*model, arguments));
}

}  // namespace

void check_model(const std::string& name, const ModelArguments& arguments) {
  const ModelRecord& record = *value_or_throw(ModelRegistry::builtin().find(name));
  EXPECT_EQ(record.name, name);
  const auto model = record.build(arguments);
  ModelArguments other_seed = arguments;
  other_seed.seed = arguments.seed + 1;
  const auto other = record.build(other_seed);
  expect_seed_decides(*model, *record.build(arguments), *other);

  EXPECT_TRUE(model->is_training());
  EXPECT_EQ((*model)(random_input(arguments, 2)).shape(), output_of(record, arguments, 2));
  int in_head = 0;
  for (const NamedTensor& parameter : model->parameters()) in_head += parameter.name.starts_with(record.head);
  EXPECT_GE(in_head, 1) << "no parameter starts with " << record.head;
  expect_activations_alone_are_the_same(record, arguments);
  expect_learns(*model, arguments);
  expect_batch_independent(*model, arguments);

  other->load_state_dict(model->state_dict());
  other->eval();
  const NoGrad no_grad;
  const Tensor x = random_input(arguments, 2);
  EXPECT_EQ((*other)(x).to_doubles(), (*model)(x).to_doubles());
}

void expect_torchvision_state_dict(const std::string& name) {
  const std::string path = test_file("engine/models/") + name + "_state_dict.txt";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  const auto model = value_or_throw(ModelRegistry::builtin().find(name))->build({1000, 3, 224, 224, 0});
  const std::vector<NamedTensor> state = model->state_dict();
  size_t i = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    ASSERT_LT(i, state.size()) << line;
    std::ostringstream own;
    own << state[i].name;
    for (const int64_t size : state[i].tensor.shape()) own << ' ' << size;
    EXPECT_EQ(own.str(), line);
    ++i;
  }
  EXPECT_EQ(i, state.size());
}

int64_t count_parameters(const std::string& name, const ModelArguments& arguments) {
  int64_t count = 0;
  for (const NamedTensor& parameter :
       value_or_throw(ModelRegistry::builtin().find(name))->build(arguments)->parameters())
    count += parameter.tensor.elements();
  return count;
}

}  // namespace dlpipe::engine
