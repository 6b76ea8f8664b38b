// cifarnet and airbench, networks for fast training on 32x32 images: a stem that whitens patches, and groups of two
// convolutions.
#include <memory>
#include <numbers>
#include <string>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {

namespace {

enum class GroupActivation : uint8_t { kRelu, kGelu };

/// 3x3 convolution, 2x2 max pool, batch norm, activation; then 3x3 convolution, batch norm, activation. As
/// the groups of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
class HalfGroup final : public Module {
 public:
  /// `epsilon` and `momentum` (as defined by PyTorch) are for the batch norms.
  HalfGroup(int64_t in, int64_t out, GroupActivation activation, double epsilon = 1e-5,
            double momentum = 0.1);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Group"; }

 private:
  Tensor normalized(BatchNorm2d& norm, const Tensor& x) const;

  GroupActivation activation_;
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<MaxPool2d> pool_;
  std::shared_ptr<BatchNorm2d> norm1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm2d> norm2_;
};

std::shared_ptr<Conv2d> group_convolution(int64_t in, int64_t out) {
  return std::make_shared<Conv2d>(in, out, 3, Conv2dArguments{.padding = 1, .bias = false});
}

HalfGroup::HalfGroup(int64_t in, int64_t out, GroupActivation activation, double epsilon, double momentum)
    : activation_(activation),
      conv1_(add_module("conv1", group_convolution(in, out))),
      pool_(add_module("pool", std::make_shared<MaxPool2d>(2))),
      norm1_(add_module("norm1", std::make_shared<BatchNorm2d>(out, epsilon, momentum))),
      conv2_(add_module("conv2", group_convolution(out, out))),
      norm2_(add_module("norm2", std::make_shared<BatchNorm2d>(out, epsilon, momentum))) {}

Tensor HalfGroup::normalized(BatchNorm2d& norm, const Tensor& x) const {
  return activation_ == GroupActivation::kRelu ? norm.forward_relu(x) : gelu(norm(x));
}

Tensor HalfGroup::forward(const Tensor& x) {
  const Tensor half = normalized(*norm1_, (*pool_)((*conv1_)(x)));
  return normalized(*norm2_, (*conv2_)(half));
}

std::shared_ptr<Module> relu_group(int64_t in, int64_t out) {
  return std::make_shared<HalfGroup>(in, out, GroupActivation::kRelu);
}

/// 2x2 convolution with a bias, then ReLU. Whitened patches need no norm.
class Stem final : public Module {
 public:
  Stem(int64_t in, int64_t out) : conv_(add_module("conv", std::make_shared<Conv2d>(in, out, 2))) {}
  Tensor forward(const Tensor& x) override { return (*conv_)(x, Activation::kRelu); }
  std::string kind() const override { return "Stem"; }

 private:
  std::shared_ptr<Conv2d> conv_;
};

constexpr int64_t kCifarnetStem = 24;

/// A whitening stem and three groups at a half, a quarter and an eighth of the size: 65 M multiply-adds per
/// 32x32 image. The layout is that of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, but
/// the second group, which has most of the multiply-adds there, has half the channels.
std::shared_ptr<Module> build_cifarnet(const ModelArguments& arguments) {
  check_model_arguments("cifarnet", arguments, 9);
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"stem", std::make_shared<Stem>(arguments.channels, kCifarnetStem)},
      {"group1", relu_group(kCifarnetStem, 64)},
      {"group2", relu_group(64, 128)},
      {"group3", relu_group(128, 256)},
      {"pool", std::make_shared<GlobalAvgPool>()},
      {"fc", std::make_shared<Linear>(256, arguments.classes)},
  });
  initialize_fan_out(*model, arguments.seed);
  for (NamedTensor& parameter : model->parameters()) {
    // Initialises convolutions as identities (fill_dirac).
    if (parameter.tensor.rank() == 4 && !parameter.name.starts_with("stem.")) fill_dirac(parameter.tensor);
  }
  return model;
}

void whiten_cifarnet(Module& model, const Tensor& images) {
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.name == "stem.conv.weight" && kCifarnetStem <= 2 * images.size(3) * 4)
      fill_whitening(parameter.tensor, images);
    if (parameter.name == "stem.conv.bias") fill_constant(parameter.tensor, 0.0);
  }
}

}  // namespace

extern const ModelRecord cifarnet_model;
const ModelRecord cifarnet_model = {
    "cifarnet",
    "whitening stem and six 3x3 convolutions with batch norm; 1.2 M parameters, 0.13 GFLOP forward at 32x32",
    32,
    build_cifarnet,
    "fc.",
    whiten_cifarnet};

namespace {

constexpr double kNormMomentum = 0.4;  // as in PyTorch: the batch's weight in the running statistics
constexpr double kNormEpsilon = 1e-12;

std::shared_ptr<Module> gelu_group(int64_t in, int64_t out) {
  return std::make_shared<HalfGroup>(in, out, GroupActivation::kGelu, kNormEpsilon, kNormMomentum);
}

/// A linear layer without a bias. Its outputs are divided by the number of inputs.
class Head final : public Module {
 public:
  Head(int64_t in, int64_t classes)
      : linear_(add_module("fc", std::make_shared<Linear>(in, classes, false))),
        factor_(1.0 / static_cast<double>(in)) {}
  Tensor forward(const Tensor& x) override { return scale((*linear_)(x), factor_); }
  std::string kind() const override { return "Head"; }

 private:
  std::shared_ptr<Linear> linear_;
  double factor_;
};

constexpr int64_t kAirbenchStem = 24;

/// The network of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024: a 2x2 whitening stem, GELU, three
/// groups of 64, 256 and 256 channels, a 3x3 max pool (here over the whole remaining image), and a scaled head.
std::shared_ptr<Module> build_airbench(const ModelArguments& arguments) {
  check_model_arguments("airbench", arguments, 9);
  const auto left = [](int64_t size) { return static_cast<int>((size - 1) / 8); };
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"stem", std::make_shared<Conv2d>(arguments.channels, kAirbenchStem, 2)},
      {"gelu", std::make_shared<GELU>()},
      {"group1", gelu_group(kAirbenchStem, 64)},
      {"group2", gelu_group(64, 256)},
      {"group3", gelu_group(256, 256)},
      {"pool", std::make_shared<MaxPool2d>(Size2(left(arguments.height), left(arguments.width)))},
      {"flatten", std::make_shared<Flatten>()},
      {"head", std::make_shared<Head>(256, arguments.classes)},
  });
  initialize(*model, arguments.seed);
  for (NamedTensor& parameter : model->parameters()) {
    // Initialises convolutions as identities (fill_dirac).
    if (parameter.tensor.rank() == 4 && parameter.name.starts_with("group")) fill_dirac(parameter.tensor);
    // Uniform with a standard deviation of 1.
    if (parameter.name == "head.fc.weight") {
      fill_uniform(parameter.tensor, {arguments.seed, parameter.name}, -std::numbers::sqrt3,
                   std::numbers::sqrt3);
    }
  }
  return model;
}

void whiten_airbench(Module& model, const Tensor& images) {
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.name == "stem.weight" && kAirbenchStem <= 2 * images.size(3) * 4)
      fill_whitening(parameter.tensor, images);
    if (parameter.name == "stem.bias") fill_constant(parameter.tensor, 0.0);
  }
}

}  // namespace

extern const ModelRecord airbench_model;
const ModelRecord airbench_model = {"airbench",
                                    "whitening stem and six 3x3 convolutions of up to 256 channels with "
                                    "GELU; 2 M parameters, 0.24 GFLOP forward "
                                    "at 32x32",
                                    32,
                                    build_airbench,
                                    "head.",
                                    whiten_airbench};

}  // namespace dlpipe::engine
