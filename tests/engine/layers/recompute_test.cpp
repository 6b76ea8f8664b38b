#include "engine/layers/recompute.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/allocator.h"

namespace dlpipe::engine {
namespace {

/// Convolution, norm, dropout: what must not happen twice.
class Block final : public Module {
 public:
  Block() {
    conv_ = add_module("conv", std::make_shared<Conv2d>(16, 16, 3, Conv2dArguments{.padding = 1}));
    norm_ = add_module("norm", std::make_shared<BatchNorm2d>(16));
    dropout_ = add_module("dropout", std::make_shared<Dropout>(0.3));
  }
  Tensor forward(const Tensor& x) override {
    ++forwards;
    return (*dropout_)(norm_->forward_relu((*conv_)(x)));
  }
  std::string kind() const override { return "Block"; }

  int forwards = 0;

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
  std::shared_ptr<Dropout> dropout_;
};

std::shared_ptr<Sequential> tower(int blocks) {
  auto model = std::shared_ptr<Sequential>(new Sequential{});
  for (int i = 0; i < blocks; ++i) model->append(dlpipe::concat("block", i), std::make_shared<Block>());
  model->append("pool", std::make_shared<GlobalAvgPool>());
  initialize(*model, 3);
  return model;
}

Tensor images(int64_t count, int64_t size) {
  RandomStream random(5, 1);
  std::vector<float> values(static_cast<size_t>(count * size * size * 16));
  for (float& value : values) value = random.uniform();
  return Tensor::from<float>(values, {count, size, size, 16});
}

struct Outcome {
  std::vector<std::vector<double>> numbers;  // loss, gradients, buffers
  size_t peak = 0;
};

/// Two steps, the second on top of the first's gradients.
Outcome run(Module& model, const Tensor& x, DType low = DType::kF32) {
  Outcome outcome;
  reset_peak();
  const size_t before = allocator_statistics().used_bytes;
  for (int64_t step = 0; step < 2; ++step) {
    random_state() = {7, step, 0};
    Tensor loss;
    {
      const UseAutocast autocast(low);
      const Tensor y = model(x);
      loss = mean(mul(y, y));
    }
    loss.backward();
    outcome.numbers.push_back(loss.to_doubles());
  }
  outcome.peak = allocator_statistics().peak_used_bytes - before;
  for (const NamedTensor& parameter : model.parameters()) {
    outcome.numbers.push_back(parameter.tensor.grad().defined() ? parameter.tensor.grad().to_doubles()
                                                                : std::vector<double>());
  }
  for (const NamedTensor& buffer : model.buffers()) outcome.numbers.push_back(buffer.tensor.to_doubles());
  return outcome;
}

TEST(Recompute, GradientsBuffersAndLossesAreTheSameBits) {
  for (const DType low : {DType::kF32, DType::kBF16}) {
    const auto kept = tower(3), again = tower(3);
    EXPECT_EQ(again->checkpoint_activations("block*"), 3);
    const Outcome expected = run(*kept, images(2, 9), low), got = run(*again, images(2, 9), low);
    EXPECT_EQ(got.numbers, expected.numbers) << dtype_name(low);
  }
}

// Of two rows and of many, for which answers alone have other kernels.
TEST(Recompute, ProductsAreTheSameBits) {
  for (const int64_t rows : {2, 130}) {
    RandomStream random(6, 1);
    std::vector<float> values(static_cast<size_t>(rows * 256));
    for (float& value : values) value = random.uniform() - 0.5F;
    const Tensor x = Tensor::from<float>(values, {rows, 256});
    const auto net = [] {
      auto model = std::shared_ptr<Sequential>(new Sequential{});
      model->append("fc1", std::make_shared<Linear>(256, 256));
      model->append("fc2", std::make_shared<Linear>(256, 256));
      initialize(*model, 3);
      return model;
    };
    for (const DType low : {DType::kF32, DType::kBF16}) {
      const auto kept = net(), again = net();
      EXPECT_EQ(again->checkpoint_activations("fc*"), 2);
      const Outcome expected = run(*kept, x, low), got = run(*again, x, low);
      EXPECT_EQ(got.numbers, expected.numbers) << rows << " " << dtype_name(low);
    }
  }
}

TEST(Recompute, FrozenModulesGetNoGradient) {
  const auto kept = tower(3), again = tower(3);
  for (const auto& model : {kept, again}) model->freeze("block0.*");
  for (const auto& model : {kept, again}) model->freeze("block2.conv.bias");
  again->checkpoint_activations("block*");
  EXPECT_EQ(run(*again, images(2, 9)).numbers, run(*kept, images(2, 9)).numbers);
}

TEST(Recompute, TheInputsGradientIsTheSame) {
  const auto kept = tower(2), again = tower(2);
  again->checkpoint_activations("block*");
  std::vector<std::vector<double>> gradients;
  for (const auto& model : {kept, again}) {
    random_state() = {7, 0, 0};
    Tensor x = images(2, 9).set_requires_grad(true);
    sum((*model)(x)).backward();
    gradients.push_back(x.grad().to_doubles());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

// A block keeps its input, and makes three more of that size (convolved, normalised, dropped out).
TEST(Recompute, KeepsLittleMoreThanInputs) {
  const auto kept = tower(8), again = tower(8);
  again->checkpoint_activations("block*");
  const Tensor x = images(8, 24);
  EXPECT_LT(run(*again, x).peak, run(*kept, x).peak * 6 / 10);
}

TEST(Recompute, TheOutermostOfNestedModulesCounts) {
  const auto model = tower(2);
  EXPECT_EQ(model->checkpoint_activations("block0*"), 1);
  EXPECT_EQ(model->checkpoint_activations("nothing*"), 0);
  EXPECT_EQ(tower(2)->checkpoint_activations("*"), 3);
}

TEST(Recompute, EvaluationAndNoGradRunOnce) {
  const auto block = std::make_shared<Block>();
  const auto model = std::shared_ptr<Sequential>(new Sequential{});
  model->append("block", block);
  initialize(*model, 3);
  model->checkpoint_activations("block");
  mean((*model)(images(1, 9))).backward();
  EXPECT_EQ(block->forwards, 2) << "backward runs it again";
  const NoGrad no_grad;
  for (const bool training : {true, false}) {
    model->train(training);
    block->forwards = 0;
    EXPECT_FALSE((*model)(images(1, 9)).requires_grad());
    EXPECT_EQ(block->forwards, 1) << (training ? "training" : "evaluation");
  }
}

TEST(Recompute, ATransformerLearnsTheSame) {
  ModelArguments arguments{.classes = 11, .seed = 1};
  arguments.length = 12;
  const ModelRecord& record = *value_or_throw(ModelRegistry::builtin().find("gpt_char"));
  const auto kept = record.build(arguments), again = record.build(arguments);
  EXPECT_EQ(again->checkpoint_activations("blocks.*"), 6);
  const Tensor ids = blank_input(arguments, 2);
  EXPECT_EQ(run(*again, ids).numbers, run(*kept, ids).numbers);
}

}  // namespace
}  // namespace dlpipe::engine
