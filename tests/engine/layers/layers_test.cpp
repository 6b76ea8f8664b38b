#include "dlpipe/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dlpipe/module.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/observers.h"

namespace dlpipe::engine {
namespace {

Tensor random_tensor(const Shape& shape, uint64_t seed = 1) {
  Tensor tensor = Tensor::empty(shape);
  RandomStream random(seed, 0);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = 2.0f * random.uniform() - 1.0f;
  return tensor;
}

Tensor parameter(const Module& module, size_t i) {
  return module.parameters().at(i).tensor;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Layers, Conv2dPassesStridePaddingDilationAndGroups) {
  Conv2d layer(4, 6, {3, 1}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 1}, .groups = 2});
  initialize(layer, 1);
  const Tensor x = random_tensor({2, 7, 5, 4});
  const Tensor y = layer(x);
  EXPECT_EQ(y.shape(), (Shape{2, 4, 5, 6}));
  EXPECT_EQ(parameter(layer, 0).shape(), (Shape{6, 2, 3, 1}));
  Conv2dAttrs attrs;
  attrs.stride = {2, 1};
  attrs.padding = {1, 0};
  attrs.groups = 2;
  EXPECT_EQ(y.to_doubles(), conv2d(x, parameter(layer, 0), parameter(layer, 1), attrs).to_doubles());
}

TEST(Layers, LinearIsPyTorchsWeightOrder) {
  Linear layer(2, 3);
  const float weight[] = {1, 2, 3, 4, 5, 6};
  const float bias[] = {10, 20, 30};
  layer.load_state_dict(
      {{"weight", Tensor::from<float>(weight, {3, 2})}, {"bias", Tensor::from<float>(bias, {3})}});
  const float x[] = {1, -1};
  EXPECT_EQ(layer(Tensor::from<float>(x, {1, 2})).to_doubles(), (std::vector<double>{9, 19, 29}));
}

TEST(Layers, LinearTakesAnySizeButNone) {
  EXPECT_EQ(Linear(1, 1)(Tensor::full({2, 1}, 1.0)).shape(), Shape({2, 1}));
  EXPECT_THROW(Linear(0, 1), Error);
  EXPECT_THROW(Linear(1, 0), Error);
}

TEST(Layers, BatchNormReluAddsTheResidualFirst) {
  BatchNorm2d layer(3);
  BatchNorm2d twin(3);
  const Tensor x = random_tensor({2, 3, 3, 3}, 1);
  const Tensor residual = random_tensor({2, 3, 3, 3}, 2);
  const std::vector<double> fused = layer.forward_relu(x, residual).to_doubles();
  const std::vector<double> apart = relu(add(twin(x), residual)).to_doubles();
  ASSERT_EQ(fused.size(), apart.size());
  for (size_t i = 0; i < fused.size(); ++i) EXPECT_NEAR(fused[i], apart[i], 1e-6);
  EXPECT_EQ(layer.buffers()[0].tensor.to_doubles(), twin.buffers()[0].tensor.to_doubles());
}

TEST(Layers, BatchNormTracksPyTorchsStatistics) {
  BatchNorm2d layer(1);
  const float x[] = {1, 2, 3, 6};  // mean 3, unbiased variance 14/3
  layer(Tensor::from<float>(x, {1, 2, 2, 1}));
  EXPECT_NEAR(layer.buffers()[0].tensor.item(), 0.3, 1e-6);
  EXPECT_NEAR(layer.buffers()[1].tensor.item(), 0.9 + 0.1 * 14.0 / 3.0, 1e-6);
}

TEST(Layers, LayerNormNormalisesTheLastAxis) {
  LayerNorm layer(4);
  const std::vector<double> y = layer(random_tensor({3, 4})).to_doubles();
  for (int row = 0; row < 3; ++row) {
    double sum = 0.0;
    for (int i = 0; i < 4; ++i) sum += y[static_cast<size_t>(4 * row + i)];
    EXPECT_NEAR(sum, 0.0, 1e-5);
  }
}

TEST(Layers, PoolsUseTheKernelAsStrideUnlessTold) {
  const Tensor x = random_tensor({1, 6, 6, 2});
  EXPECT_EQ(MaxPool2d(2)(x).shape(), (Shape{1, 3, 3, 2}));
  EXPECT_EQ(AvgPool2d({3, 2})(x).shape(), (Shape{1, 2, 3, 2}));
  EXPECT_EQ(MaxPool2d(3, {.stride = Size2(2), .padding = 1})(x).shape(), (Shape{1, 3, 3, 2}));
  EXPECT_EQ(GlobalAvgPool()(x).shape(), (Shape{1, 2}));
}

TEST(Layers, UpsampleTakesAScaleOrASize) {
  const Tensor x = random_tensor({1, 4, 5, 3});
  EXPECT_EQ(Upsample()(x).to_doubles(), resize(x, {.size = {8, 10}}).to_doubles());
  // By 1.5, 5 pixels are 7, and places are computed by 1.5; corners are the output's.
  ResizeAttrs attrs{.size = {6, 7},
                    .coordinates = ResizeCoordinates::kHalfPixel,
                    .rounding = ResizeRounding::kPreferCeil,
                    .scale_width = 1.5};
  EXPECT_EQ(Upsample({.scale = 1.5, .mode = UpsampleMode::kNearestExact})(x).to_doubles(),
            resize(x, attrs).to_doubles());
  attrs.mode = ResizeMode::kLinear;
  EXPECT_EQ(Upsample({.scale = 1.5, .mode = UpsampleMode::kBilinear})(x).to_doubles(),
            resize(x, attrs).to_doubles());
  attrs.coordinates = ResizeCoordinates::kAlignCorners;
  attrs.scale_width = 0;
  EXPECT_EQ(Upsample({.scale = 1.5, .mode = UpsampleMode::kBilinear, .align_corners = true})(x).to_doubles(),
            resize(x, attrs).to_doubles());
  EXPECT_EQ(Upsample({.size = Size2(3, 9)})(x).to_doubles(), resize(x, {.size = {3, 9}}).to_doubles());
  EXPECT_EQ(error_of([] { Upsample({.scale = 0}); }), "[Upsample] expected a scale above 0, got 0");
  EXPECT_EQ(error_of([] { Upsample({.align_corners = true}); }),
            "[Upsample] align_corners is for bilinear only; leave it out");
}

TEST(Layers, FlattenEmitsChannelsFirst) {
  const float x[] = {1, 10, 2, 20};  // 1x2 pixels of two channels
  EXPECT_EQ(Flatten()(Tensor::from<float>(x, {1, 1, 2, 2})).to_doubles(),
            (std::vector<double>{1, 2, 10, 20}));
}

TEST(Layers, DropoutOnlyActsInTraining) {
  random_state() = {1, 0, 0};
  Dropout layer(0.5);
  const Tensor x = Tensor::full({1000}, 1.0);
  int dropped = 0;
  for (const double value : layer(x).to_doubles()) {
    EXPECT_TRUE(value == 0.0 || value == 2.0) << value;
    dropped += value == 0.0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 500, 80);  // five standard deviations of a fair coin
  layer.eval();
  EXPECT_EQ(layer(x).to_doubles(), x.to_doubles());
}

TEST(Layers, EmbeddingLooksRowsUp) {
  Embedding layer(3, 2);
  const float table[] = {1, 2, 3, 4, 5, 6};
  layer.load_state_dict({{"weight", Tensor::from<float>(table, {3, 2})}});
  const int64_t ids[] = {2, 0};
  EXPECT_EQ(layer(Tensor::from<int64_t>(ids, {2})).to_doubles(), (std::vector<double>{5, 6, 1, 2}));
}

TEST(Layers, ActivationsAreTheirOps) {
  const Tensor x = random_tensor({2, 5});
  EXPECT_EQ(ReLU()(x).to_doubles(), relu(x).to_doubles());
  EXPECT_EQ(GELU()(x).to_doubles(), gelu(x).to_doubles());
  EXPECT_EQ(SiLU()(x).to_doubles(), silu(x).to_doubles());
  EXPECT_EQ(Sigmoid()(x).to_doubles(), sigmoid(x).to_doubles());
  EXPECT_EQ(Tanh()(x).to_doubles(), tanh(x).to_doubles());
  EXPECT_EQ(Softmax()(x).to_doubles(), softmax(x).to_doubles());
}

/// Convolutions and linear layers with activations that they take along, that they don't, and none.
std::shared_ptr<Sequential> activated_net() {
  auto net = std::shared_ptr<Sequential>(new Sequential{
      {"conv1", std::make_shared<Conv2d>(3, 8, 3, Conv2dArguments{.padding = 1})},
      {"relu1", std::make_shared<ReLU>()},
      {"conv2", std::make_shared<Conv2d>(8, 8, 3)},
      {"gelu", std::make_shared<GELU>()},
      {"pool", std::make_shared<MaxPool2d>(2)},
      {"flatten", std::make_shared<Flatten>()},
      {"fc1", std::make_shared<Linear>(32, 12)},
      {"relu2", std::make_shared<ReLU>()},
      {"fc2", std::make_shared<Linear>(12, 12)},
      {"gelu2", std::make_shared<GELU>()},
      {"fc3", std::make_shared<Linear>(12, 12)},
      {"silu", std::make_shared<SiLU>()},
      {"fc4", std::make_shared<Linear>(12, 4)},
  });
  initialize(*net, 1);
  return net;
}

/// Outputs and all gradients.
std::vector<std::vector<double>> outcome_of(Module& net) {
  const Tensor y = net(random_tensor({2, 6, 6, 3}, 2));
  y.backward(random_tensor(y.shape(), 3));
  std::vector<std::vector<double>> all = {y.to_doubles()};
  for (const NamedTensor& named : net.parameters()) all.push_back(named.tensor.grad().to_doubles());
  return all;
}

/// Whether a forward pass runs `op`, and with that activation ("" for none).
bool runs(Module& net, const std::string& op, const std::string& activation = "") {
  const OpProfile profile;
  const NoGrad no_grad;
  net(random_tensor({2, 6, 6, 3}, 2));
  const std::vector<OpCost> costs = profile.costs();
  return std::any_of(costs.begin(), costs.end(), [&](const OpCost& cost) {
    const size_t with = cost.kernel.find("with ");
    return cost.op == op && (with == std::string::npos ? "" : cost.kernel.substr(with + 5)) == activation;
  });
}

TEST(Layers, SequentialTakesActivationsAlong) {
  const auto net = activated_net();
  EXPECT_TRUE(runs(*net, "conv2d", "relu"));
  EXPECT_TRUE(runs(*net, "linear", "relu"));
  EXPECT_TRUE(runs(*net, "linear", "gelu"));
  EXPECT_FALSE(runs(*net, "relu"));
  EXPECT_TRUE(runs(*net, "gelu"));  // behind a convolution
}

// Who looks at a layer sees each call with what it answers: the layers' own outputs, before activations.
TEST(Layers, HooksSeeEveryLayerAndChangeNoBit) {
  const auto net = activated_net(), watched = activated_net();
  std::vector<std::string> calls;
  for (const auto& [name, layer] : watched->children()) {
    layer->register_forward_hook([&calls, name = name](Module&, const Tensor& x, const Tensor& y) {
      calls.push_back(name);
      if (name.starts_with("relu")) {
        EXPECT_EQ(relu(x).to_doubles(), y.to_doubles());
        EXPECT_NE(x.to_doubles(), y.to_doubles());
      }
    });
  }
  EXPECT_EQ(outcome_of(*watched), outcome_of(*net));
  std::vector<std::string> expected;
  for (const auto& [name, layer] : net->children()) expected.push_back(name);
  EXPECT_EQ(calls, expected);
  EXPECT_FALSE(runs(*watched, "conv2d", "relu"));
}

TEST(Layers, ARecomputedLayerKeepsItsActivationToItself) {
  const auto net = activated_net(), again = activated_net();
  EXPECT_EQ(again->checkpoint_activations("fc1"), 1);
  EXPECT_EQ(again->checkpoint_activations("relu1"), 1);
  EXPECT_EQ(outcome_of(*again), outcome_of(*net));
  EXPECT_FALSE(runs(*again, "conv2d", "relu"));
  EXPECT_FALSE(runs(*again, "linear", "relu"));
  EXPECT_TRUE(runs(*again, "linear", "gelu"));
}

TEST(Layers, AnyModuleCanBeCalledWithAnActivation) {
  Linear linear_layer(5, 7);
  BatchNorm2d norm(3);
  initialize(linear_layer, 1);
  const Tensor x = random_tensor({4, 5}), images = random_tensor({2, 3, 3, 3});
  EXPECT_EQ(linear_layer(x, Activation::kGelu).to_doubles(), gelu(linear_layer(x)).to_doubles());
  EXPECT_EQ(linear_layer(x, Activation::kNone).to_doubles(), linear_layer(x).to_doubles());
  EXPECT_FALSE(norm.forward_fused(images, Activation::kRelu).defined());
  norm.eval();
  EXPECT_EQ(norm(images, Activation::kRelu).to_doubles(), relu(norm(images)).to_doubles());
}

TEST(Layers, RefuseSizesThatCannotBe) {
  EXPECT_NE(error_of([] { Conv2d(3, 4, 3, {.groups = 2}); }).find("[Conv2d]"), std::string::npos);
  EXPECT_NE(error_of([] { Conv2d(3, 0, 3); }).find("3 -> 0"), std::string::npos);
  EXPECT_NE(error_of([] { Linear(0, 4); }).find("[Linear]"), std::string::npos);
  EXPECT_NE(error_of([] { BatchNorm2d(0); }).find("[BatchNorm2d]"), std::string::npos);
  EXPECT_NE(error_of([] { LayerNorm(-1); }).find("[LayerNorm]"), std::string::npos);
  EXPECT_NE(error_of([] { Embedding(0, 1); }).find("[Embedding]"), std::string::npos);
  EXPECT_NE(error_of([] { Dropout(1.0); }).find("[0, 1)"), std::string::npos);
}

TEST(Layers, FlopsCountAMultiplyAddAsTwo) {
  EXPECT_EQ(Conv2d(4, 8, 3, {.bias = false}).flops({}, {{1, 5, 5, 8}}), 2.0 * 4 * 9 * 8 * 25);
  EXPECT_EQ(Conv2d(4, 8, 3, {.groups = 2}).flops({}, {{1, 5, 5, 8}}), (2.0 * 2 * 9 + 1) * 8 * 25);
  EXPECT_EQ(Linear(10, 5).flops({}, {{3, 5}}), (2.0 * 10 + 1) * 15);
  EXPECT_EQ(ReLU().flops({}, {{3, 5}}), 15.0);
}

}  // namespace
}  // namespace dlpipe::engine
