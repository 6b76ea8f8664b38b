#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "tests/engine/check_op.h"

namespace dlpipe::engine {
namespace {

// Clamps to [-1, 1] but passes the whole gradient: a straight-through estimator, which no composition of ops
// gives.
struct StraightThroughClamp : Function {
  std::string name() const override { return "clamp"; }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    save(inputs[0]);
    Tensor y = inputs[0].clone();
    for (int64_t i = 0; i < y.elements(); ++i)
      y.data<float>()[i] = std::clamp(y.data<float>()[i], -1.0f, 1.0f);
    return {y};
  }
  std::vector<Tensor> backward(std::span<const Tensor> grad_outputs) override {
    seen = saved(0);
    return {grad_outputs[0]};
  }
  Tensor seen;
};

Tensor clamp_leaf(const std::vector<float>& values) {
  Tensor x = Tensor::from<float>(values, {static_cast<int64_t>(values.size())});
  return x.set_requires_grad(true);
}

TEST(Function, OfAProgramTakesPartInTheGraph) {
  Tensor x = clamp_leaf({-3, 0.5, 3});
  auto clamp = std::make_shared<StraightThroughClamp>();
  const Tensor y = run_function(clamp, {scale(x, 2.0)})[0];
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{-1, 1, 1}));
  mul(y, y).backward(Tensor::full({3}, 1.0));
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{-4, 4, 4}));
  EXPECT_EQ(clamp->seen.to_doubles(), (std::vector<double>{-6, 1, 6}));
}

TEST(Function, RecordsNothingWhereNoInputNeedsIt) {
  const Tensor x = Tensor::full({2}, 1.0);
  EXPECT_FALSE(run_function(std::make_shared<StraightThroughClamp>(), {x})[0].requires_grad());
  Tensor wanted = clamp_leaf({1});
  const NoGrad no_grad;
  EXPECT_FALSE(run_function(std::make_shared<StraightThroughClamp>(), {wanted})[0].requires_grad());
}

TEST(Function, SavedTensorsAreWatchedAndFreed) {
  Tensor x = clamp_leaf({1, 2});
  const Tensor y = run_function(std::make_shared<StraightThroughClamp>(), {x})[0];
  x.bump_version();
  try {
    y.backward(Tensor::full({2}, 1.0));
    FAIL() << "a changed tensor was used";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[clamp] a tensor saved for backward was changed"),
              std::string::npos);
  }
}

struct TooMany : Function {
  std::string name() const override { return "too_many"; }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override { return {inputs[0]}; }
  std::vector<Tensor> backward(std::span<const Tensor> grads) override { return {grads[0], grads[0]}; }
};

TEST(Function, ThatAnswersTooManyGradientsIsNamed) {
  Tensor x = clamp_leaf({1});
  const Tensor y = run_function(std::make_shared<TooMany>(), {x})[0];
  EXPECT_TRUE(x.is_leaf()) << "an input handed through keeps its own history";
  EXPECT_THROW(y.backward(), Error);
}

// An op of a program's own, with record and kernels, as one would ship it: x^3.
std::vector<TensorSpec> cube_infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs&) {
  return {{inputs[0].shape, inputs[0].dtype}};
}
template <class T>
void cube_forward_as(const ForwardArgs& args) {
  const T* x = args.inputs[0].data<T>();
  for (int64_t i = 0; i < args.inputs[0].elements(); ++i) args.outputs[0].data<T>()[i] = x[i] * x[i] * x[i];
}
void cube_forward(const ForwardArgs& args) {
  args.inputs[0].dtype() == DType::kF64 ? cube_forward_as<double>(args) : cube_forward_as<float>(args);
}
template <class T>
void cube_backward_as(const BackwardArgs& args) {
  const T* x = args.inputs[0].data<T>();
  const T* grad = args.grad_outputs[0].data<T>();
  for (int64_t i = 0; i < args.inputs[0].elements(); ++i)
    args.grad_inputs[0].data<T>()[i] = 3 * x[i] * x[i] * grad[i];
}
void cube_backward(const BackwardArgs& args) {
  args.inputs[0].dtype() == DType::kF64 ? cube_backward_as<double>(args) : cube_backward_as<float>(args);
}
const OpRecord cube_op = {
    .name = "cube",
    .infer = cube_infer,
    .save_inputs = bit(0),
    .samples =
        [] {
          return std::vector<OpSample>{{"rows", {{{3, 7}}}, Attrs{}}};
        },
};
const Kernels cube_reference = {.forward = cube_forward, .backward = cube_backward};

TEST(OpRegistry, TakesAnOpOfAProgramAndItPassesTheSameChecks) {
  OpRegistry registry = OpRegistry::builtin();
  const OpRow own = {&cube_op, {&cube_reference, nullptr, nullptr}};
  registry.add(own);
  const OpRow* row = registry.get("cube");
  ASSERT_NE(row, nullptr);
  check_op(*row);
  Tensor x = clamp_leaf({2});
  apply(*row, {x})[0].backward();
  EXPECT_EQ(x.grad().item(), 12);
  EXPECT_EQ(OpRegistry::builtin().get("cube"), nullptr);
}

TEST(OpRegistry, OpsThatOnlyTheReferenceHasTakeBf16InF32) {
  const OpRow row = {&cube_op, {&cube_reference, nullptr, nullptr}};
  Tensor x = Tensor::full({1}, 2.0, DType::kBF16);
  x.set_requires_grad(true);
  const Tensor y = apply(row, {x})[0];
  EXPECT_EQ(y.dtype(), DType::kBF16);
  EXPECT_EQ(y.item(), 8);
  y.backward();
  EXPECT_EQ(x.grad().dtype(), DType::kBF16);
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(OpRegistry, RefusesASecondOpOfTheSameName) {
  OpRegistry registry = OpRegistry::builtin();
  OpRecord twice = cube_op;
  twice.name = "relu";
  const OpRow own = {&twice, {&cube_reference, nullptr, nullptr}};
  EXPECT_THROW(registry.add(own), Error);
}

TEST(Attrs, OfTheWrongTypeAreAnErrorThatNamesBoth) {
  const Tensor x = Tensor::full({2, 4, 4, 3}, 1.0);
  const OpRow& pool = *OpRegistry::builtin().get("max_pool2d");
  try {
    apply(pool, {x}, Conv2dAttrs{});
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("Pool2dAttrs"), std::string::npos) << message;
    EXPECT_NE(message.find("Conv2dAttrs"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace dlpipe::engine
