#include "dlpipe/engine/replay/replay.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/autograd/function.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/replay/difference.h"

namespace dlpipe::engine::replay {
namespace {

using Inputs = std::vector<Tensor>;
using Loss = std::function<Tensor(const Inputs&)>;

/// Six samples of eight numbers, and their classes, of four.
Inputs inputs(uint64_t seed) {
  std::vector<float> values;
  std::vector<int64_t> labels;
  for (uint64_t i = 0; i < 48; ++i)
    values.push_back(static_cast<float>(philox_mix(seed, i) % 2001) / 1000 - 1);
  for (uint64_t i = 0; i < 6; ++i) labels.push_back(static_cast<int64_t>(philox_mix(seed + 100, i) % 4));
  return {Tensor::from<float>(values, {6, 8}), Tensor::from<int64_t>(labels, {6})};
}

/// A pass over a module, eager, recorded and replayed.
class Pass {
 public:
  Pass(std::shared_ptr<Module> module, Loss loss) : module_(std::move(module)), loss_(std::move(loss)) {
    for (const NamedTensor& tensor : module_->state_dict()) lasting_.push_back(tensor.tensor);
  }

  double run(const Inputs& inputs) {
    const Tensor loss = loss_(inputs);
    loss.backward();
    return loss.item();
  }
  std::unique_ptr<Recording> record(const Inputs& inputs) {
    auto recording = std::make_unique<Recording>(inputs, lasting_);
    const UseKernelObserver use(recording.get());
    const Tensor loss = loss_(inputs);
    recording->end_first_part(loss);
    loss.backward();
    recording->end();
    return recording;
  }
  double run(Replay& replay, const Inputs& inputs) {
    const double loss = replay.run_first_part(inputs).item();
    replay.run_second_part();
    return loss;
  }
  /// What is not the same in two passes over random inputs.
  std::string difference() {
    const auto first = record(inputs(1));
    module_->zero_grad();
    const auto second = record(inputs(2));
    module_->zero_grad();
    return replay::difference(*first, *second);
  }
  /// A replay and an eager pass of the same inputs, over some steps of plain gradient descent: the same bits.
  void expect_same_bits() {
    const auto first = record(inputs(1)), second = record(inputs(2));
    ASSERT_EQ(replay::difference(*first, *second), "");
    Replay replay(*second);
    for (uint64_t step = 3; step < 6; ++step) {
      const Inputs given = inputs(step);
      module_->zero_grad();
      const double eager = run(given);
      const std::vector<std::string> wanted = gradients();
      module_->zero_grad();
      EXPECT_EQ(run(replay, given), eager);
      EXPECT_EQ(gradients(), wanted) << "step " << step;
      for (NamedTensor& parameter : module_->parameters()) {
        for (int64_t i = 0; i < parameter.tensor.elements(); ++i)
          parameter.tensor.data<float>()[i] -= 0.1f * parameter.tensor.grad().data<float>()[i];
        parameter.tensor.bump_version();
      }
    }
  }
  /// Their bytes.
  std::vector<std::string> gradients() const {
    std::vector<std::string> all;
    for (const NamedTensor& parameter : module_->parameters()) {
      const Tensor grad = parameter.tensor.grad();
      all.emplace_back(grad.defined() ? static_cast<const char*>(grad.raw()) : "",
                       grad.defined() ? grad.size_bytes() : 0);
    }
    return all;
  }
  Module& module() { return *module_; }

 private:
  std::shared_ptr<Module> module_;
  Loss loss_;
  std::vector<Tensor> lasting_;
};

std::shared_ptr<Module> small_mlp(double dropout = 0) {
  auto mlp = std::make_shared<Sequential>();
  mlp->append("fc1", std::make_shared<Linear>(8, 16));
  mlp->append("relu", std::make_shared<ReLU>());
  if (dropout > 0) mlp->append("dropout", std::make_shared<Dropout>(dropout));
  mlp->append("fc2", std::make_shared<Linear>(16, 4));
  initialize(*mlp, 1);
  mlp->train();
  return mlp;
}

Pass mlp_pass(double dropout = 0) {
  const auto mlp = small_mlp(dropout);
  return {mlp, [mlp](const Inputs& in) { return cross_entropy((*mlp)(in[0]), in[1], Tensor(), 0.0); }};
}

TEST(Replay, OfAnMlpGivesTheBitsOfThePass) {
  mlp_pass().expect_same_bits();
}

// Whose kernel answers gradients in memory of its own.
TEST(Replay, OfStretchedTensorsGivesTheBitsOfThePass) {
  const auto mlp = small_mlp();
  Pass pass(mlp, [mlp](const Inputs& in) {
    const Tensor logits = (*mlp)(in[0]);
    const Tensor sums = expand(sum(logits, {1}, true), {6, 4});
    return cross_entropy(mul(logits, expand(mul(sums, sums), {6, 4})), in[1], Tensor(), 0.0);
  });
  pass.expect_same_bits();
}

TEST(Replay, DrawsRandomNumbersAnew) {
  Pass pass = mlp_pass(0.5);
  random_state() = {.seed = 1, .step = 1};
  const auto first = pass.record(inputs(1));
  random_state() = {.seed = 1, .step = 2};
  const auto second = pass.record(inputs(1));
  ASSERT_EQ(difference(*first, *second), "");
  Replay replay(*second);
  for (const int64_t step : {3, 4}) {
    random_state() = {.seed = 1, .step = step};
    const double eager = pass.run(inputs(1));
    random_state() = {.seed = 1, .step = step};
    EXPECT_EQ(pass.run(replay, inputs(1)), eager);
  }
}

TEST(Replay, AddsToGradientsThatAreThere) {
  Pass pass = mlp_pass();
  const auto recording = pass.record(inputs(1));
  Replay replay(*recording);
  pass.module().zero_grad();
  pass.run(inputs(1));
  pass.run(inputs(2));
  const std::vector<std::string> wanted = pass.gradients();
  pass.module().zero_grad();
  pass.run(replay, inputs(1));
  pass.run(replay, inputs(2));
  EXPECT_EQ(pass.gradients(), wanted);
  // And to those of an eager pass.
  pass.module().zero_grad();
  pass.run(inputs(1));
  pass.run(replay, inputs(2));
  EXPECT_EQ(pass.gradients(), wanted);
}

TEST(Replay, TakesInputsFromTheMiddleOfTheirMemory) {
  Pass pass = mlp_pass();
  const auto recording = pass.record(inputs(1));
  Replay replay(*recording);
  const Inputs given = inputs(2);
  const double eager = pass.run(given);
  const Tensor rows = concat({Tensor::zeros({3, 8}), given[0]}, 0);
  EXPECT_EQ(pass.run(replay, {rows.view_as({6, 8}, given[0].strides(), 24), given[1]}), eager);
}

TEST(Replay, GivesOneGradientToTwoLeavesAsTwo) {
  // The gradient of a sum is the same memory for both sides.
  struct Sum final : Module {
    Sum()
        : a(add_parameter("a", Tensor::full({6, 4}, 0.5))),
          b(add_parameter("b", Tensor::full({6, 4}, 0.25))) {}
    Tensor forward(const Tensor&) override { return add(a, b); }
    std::string kind() const override { return "Sum"; }
    Tensor a, b;
  };
  const auto sum = std::make_shared<Sum>();
  Pass pass(sum, [sum](const Inputs& in) { return cross_entropy((*sum)(in[0]), in[1], Tensor(), 0.0); });
  pass.expect_same_bits();
  EXPECT_NE(sum->a.grad().raw(), sum->b.grad().raw());
}

TEST(Replay, TakesMemoryAnewAfterItWasReleased) {
  Pass pass = mlp_pass();
  const auto recording = pass.record(inputs(1));
  Replay replay(*recording);
  pass.module().zero_grad();
  const double first = pass.run(replay, inputs(2));
  const std::vector<std::string> kept = pass.gradients();
  replay.release_memory();
  EXPECT_EQ(pass.gradients(), kept);
  pass.module().zero_grad();
  EXPECT_EQ(pass.run(replay, inputs(2)), first);
  EXPECT_EQ(pass.gradients(), kept);
}

TEST(Replay, CountsWritesInPlaceOfRunningStatistics) {
  auto net = std::make_shared<Sequential>();
  net->append("bn", std::make_shared<BatchNorm2d>(8));
  net->append("fc", std::make_shared<Linear>(8, 4));
  initialize(*net, 1);
  Pass pass(net, [net](const Inputs& in) {
    return cross_entropy(reshape((*net)(reshape(in[0], {6, 1, 1, 8})), {6, 4}), in[1], Tensor(), 0.0);
  });
  const auto recording = pass.record(inputs(1));
  Replay replay(*recording);
  const Tensor mean = net->buffers()[0].tensor;
  const uint32_t version = mean.version();
  pass.run(inputs(2));
  EXPECT_EQ(mean.version(), version + 1);
  pass.run(replay, inputs(2));
  EXPECT_EQ(mean.version(), version + 2);
}

// What a program's own op may do: attributes that can't be written down.
TEST(Difference, NamesAnOpWhoseAttributesCannotBeCompared) {
  struct Factor {
    double factor = 1;
  };
  static const auto forward = [](const ForwardArgs& args) {
    for (int64_t i = 0; i < args.inputs[0].elements(); ++i)
      args.outputs[0].data<float>()[i] =
          args.inputs[0].data<float>()[i] * static_cast<float>(args.attrs.as<Factor>().factor);
  };
  static const auto backward = [](const BackwardArgs& args) {
    for (int64_t i = 0; i < args.grad_inputs[0].elements(); ++i)
      args.grad_inputs[0].data<float>()[i] =
          args.grad_outputs[0].data<float>()[i] * static_cast<float>(args.attrs.as<Factor>().factor);
  };
  static const Kernels kernels = {.forward = forward, .backward = backward};
  static const OpRecord record = {.name = "times", .infer = [](auto inputs, auto, const Attrs&) {
                                    return std::vector<TensorSpec>{inputs[0]};
                                  }};
  static const OpRow row = {&record, {&kernels, nullptr, nullptr}};
  const auto mlp = small_mlp();
  Pass pass(mlp, [mlp](const Inputs& in) {
    return cross_entropy(apply(row, {(*mlp)(in[0])}, Factor{2})[0], in[1], Tensor(), 0.0);
  });
  EXPECT_EQ(pass.difference(), "the attributes of times can't be compared: its op has no attr_form");
}

TEST(Difference, NamesFunctionsAndHooksWithCodeOfTheirOwn) {
  struct Twice final : Function {
    std::string name() const override { return "twice"; }
    std::vector<Tensor> forward(std::span<const Tensor> given) override { return {scale(given[0], 2)}; }
    std::vector<Tensor> backward(std::span<const Tensor> grads) override { return {scale(grads[0], 2)}; }
  };
  const auto mlp = small_mlp();
  Pass function(mlp, [mlp](const Inputs& in) {
    return cross_entropy(run_function(std::make_shared<Twice>(), {(*mlp)(in[0])})[0], in[1], Tensor(), 0.0);
  });
  EXPECT_EQ(function.difference(), "twice has code of its own between its kernels");
  Pass hook(mlp, [mlp](const Inputs& in) {
    Tensor y = (*mlp)(in[0]);
    y.register_hook([](const Tensor&) { return Tensor(); });
    return cross_entropy(y, in[1], Tensor(), 0.0);
  });
  EXPECT_EQ(hook.difference(), "a hook watches the gradient of what linear made");
}

TEST(Difference, NamesWeightsThatTheHostLooksAt) {
  const auto mlp = small_mlp();
  Pass pass(mlp, [mlp](const Inputs& in) {
    const double first = mlp->parameters()[0].tensor.to_doubles()[0];
    return cross_entropy(scale((*mlp)(in[0]), first), in[1], Tensor(), 0.0);
  });
  EXPECT_EQ(pass.difference(), "the host looks at values of weights or buffers in the middle of the pass");
}

// All others can be replayed; those two prepare batches before any pass, or are compared by their layout.
TEST(Difference, EveryOpOfTheTableCanBeCompared) {
  for (const OpRow& row : op_table()) {
    const bool takes_attrs = !row.record->samples().front().attrs.is<NoAttrs>();
    const std::string name = row.record->name;
    EXPECT_TRUE(!takes_attrs || row.record->attr_form != nullptr || name == "reorder" || name == "batch_prep")
        << name << ": give its attributes `each`, and its record .attr_form";
  }
}

}  // namespace
}  // namespace dlpipe::engine::replay
