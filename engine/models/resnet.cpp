// Residual networks (He et al., "Deep residual learning for image recognition", 2015) with the parameter
// names, shapes and initial distribution of torchvision's, so that weights published by torchvision load by
// name. One thread at a time.
#include <array>
#include <memory>
#include <string>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Conv2d> make_conv3x3(int64_t in, int64_t out, int stride) {
  return std::make_shared<Conv2d>(in, out, 3, Conv2dArguments{.stride = stride, .padding = 1, .bias = false});
}
std::shared_ptr<Conv2d> make_conv1x1(int64_t in, int64_t out, int stride) {
  return std::make_shared<Conv2d>(in, out, 1, Conv2dArguments{.stride = stride, .bias = false});
}

/// The projection of a block with different input and output shapes; null if they are equal.
std::shared_ptr<Sequential> make_downsample(int64_t in, int64_t out, int stride) {
  if (in == out && stride == 1) return nullptr;
  auto downsample = std::make_shared<Sequential>();
  downsample->append(make_conv1x1(in, out, stride)).append(std::make_shared<BatchNorm2d>(out));
  return downsample;
}

class BasicBlock final : public Module {
 public:
  BasicBlock(int64_t in, int64_t width, int stride)
      : conv1_(add_module("conv1", make_conv3x3(in, width, stride))),
        bn1_(add_module("bn1", std::make_shared<BatchNorm2d>(width))),
        conv2_(add_module("conv2", make_conv3x3(width, width, 1))),
        bn2_(add_module("bn2", std::make_shared<BatchNorm2d>(width))),
        downsample_(make_downsample(in, width, stride)) {
    if (downsample_) add_module("downsample", downsample_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn1_->forward_relu((*conv1_)(x));
    return bn2_->forward_relu((*conv2_)(y), downsample_ ? (*downsample_)(x) : x);
  }
  std::string kind() const override { return "BasicBlock"; }

 private:
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm2d> bn2_;
  std::shared_ptr<Sequential> downsample_;
};

constexpr int64_t kExpansion = 4;

class Bottleneck final : public Module {
 public:
  Bottleneck(int64_t in, int64_t width, int stride)
      : conv1_(add_module("conv1", make_conv1x1(in, width, 1))),
        bn1_(add_module("bn1", std::make_shared<BatchNorm2d>(width))),
        conv2_(add_module("conv2", make_conv3x3(width, width, stride))),
        bn2_(add_module("bn2", std::make_shared<BatchNorm2d>(width))),
        conv3_(add_module("conv3", make_conv1x1(width, width * kExpansion, 1))),
        bn3_(add_module("bn3", std::make_shared<BatchNorm2d>(width * kExpansion))),
        downsample_(make_downsample(in, width * kExpansion, stride)) {
    if (downsample_) add_module("downsample", downsample_);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = bn1_->forward_relu((*conv1_)(x));
    y = bn2_->forward_relu((*conv2_)(y));
    return bn3_->forward_relu((*conv3_)(y), downsample_ ? (*downsample_)(x) : x);
  }
  std::string kind() const override { return "Bottleneck"; }

 private:
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm2d> bn2_;
  std::shared_ptr<Conv2d> conv3_;
  std::shared_ptr<BatchNorm2d> bn3_;
  std::shared_ptr<Sequential> downsample_;
};

enum class ResNetBlock : uint8_t {
  kBasic,       // two 3x3 convolutions
  kBottleneck,  // 1x1, 3x3 (which has the stride), 1x1 with four times the channels
};

struct ResNetShape {
  ResNetBlock block = ResNetBlock::kBasic;
  std::array<int, 4> blocks = {2, 2, 2, 2};  // in layer1 .. layer4
  /// False: the ImageNet stem, a 7x7 convolution of stride 2 and a 3x3 max pool of stride 2. True: a 3x3
  /// convolution of stride 1 and no pool, as usual at 32x32.
  bool small_images = false;
};

/// [N,H,W,channels] -> logits [N,classes].
class ResNet final : public Module {
 public:
  ResNet(const ResNetShape& shape, const ModelArguments& arguments);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "ResNet"; }

 private:
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::shared_ptr<MaxPool2d> max_pool_;  // null for small images
  std::array<std::shared_ptr<Sequential>, 4> layers_;
  std::shared_ptr<GlobalAvgPool> avg_pool_;
  std::shared_ptr<Linear> fc_;
};

ResNet::ResNet(const ResNetShape& shape, const ModelArguments& arguments) {
  constexpr int64_t kStem = 64;
  const Conv2dArguments stem = shape.small_images ? Conv2dArguments{.stride = 1, .padding = 1, .bias = false}
                                                  : Conv2dArguments{.stride = 2, .padding = 3, .bias = false};
  conv1_ = add_module("conv1",
                      std::make_shared<Conv2d>(arguments.channels, kStem, shape.small_images ? 3 : 7, stem));
  bn1_ = add_module("bn1", std::make_shared<BatchNorm2d>(kStem));
  if (!shape.small_images) {
    max_pool_ = add_module("maxpool",
                           std::make_shared<MaxPool2d>(3, Pool2dArguments{.stride = Size2(2), .padding = 1}));
  }
  const bool basic = shape.block == ResNetBlock::kBasic;
  int64_t in = kStem;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t width = kStem << i;
    layers_[i] = add_module("layer" + std::to_string(i + 1), std::make_shared<Sequential>());
    for (int block = 0; block < shape.blocks[i]; ++block) {
      const int stride = i > 0 && block == 0 ? 2 : 1;
      if (basic) {
        layers_[i]->append(std::make_shared<BasicBlock>(in, width, stride));
      } else {
        layers_[i]->append(std::make_shared<Bottleneck>(in, width, stride));
      }
      in = basic ? width : width * kExpansion;
    }
  }
  avg_pool_ = add_module("avgpool", std::make_shared<GlobalAvgPool>());
  fc_ = add_module("fc", std::make_shared<Linear>(in, arguments.classes));
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = bn1_->forward_relu((*conv1_)(x));
  if (max_pool_) y = (*max_pool_)(y);
  for (const auto& layer : layers_) y = (*layer)(y);
  return (*fc_)((*avg_pool_)(y));
}

/// A record of a ResNet with initial weights drawn from the arguments' seed.
ModelRecord resnet(const char* name, const char* help, int64_t size, const ResNetShape& shape,
                   const PublishedWeights* published) {
  return {.name = name,
          .help = help,
          .default_size = size,
          .build = [=](const ModelArguments& arguments) -> std::shared_ptr<Module> {
            check_model_arguments(name, arguments, 1);
            auto model = std::make_shared<ResNet>(shape, arguments);
            initialize_fan_out(*model, arguments.seed);
            return model;
          },
          .head = "fc.",
          .published = published};
}

}  // namespace

extern const ModelRecord resnet18_model, resnet34_model, resnet50_model, resnet200_model,
    resnet18_cifar_model;
const ModelRecord resnet18_model =
    resnet("resnet18", "ResNet-18, torchvision's names; 11.7 M parameters, 3.6 GFLOP forward at 224x224", 224,
           {ResNetBlock::kBasic, {2, 2, 2, 2}, false}, &torchvision_weights);
const ModelRecord resnet34_model =
    resnet("resnet34", "ResNet-34, torchvision's names; 21.8 M parameters, 7.3 GFLOP forward at 224x224", 224,
           {ResNetBlock::kBasic, {3, 4, 6, 3}, false}, &torchvision_weights);
const ModelRecord resnet50_model = resnet(
    "resnet50",
    "ResNet-50 (stride in the 3x3), torchvision's names; 25.6 M parameters, 8.2 GFLOP forward at 224x224",
    224, {ResNetBlock::kBottleneck, {3, 4, 6, 3}, false}, &torchvision_weights);
const ModelRecord resnet200_model = resnet(
    "resnet200",
    "ResNet-200 (stride in the 3x3), names as resnet50; 64.7 M parameters, 30.1 GFLOP forward at 224x224",
    224, {ResNetBlock::kBottleneck, {3, 24, 36, 3}, false}, nullptr);
const ModelRecord resnet18_cifar_model =
    resnet("resnet18_cifar",
           "ResNet-18 for small images: 3x3 stem, no max pool; 11.2 M parameters, 1.1 GFLOP forward at 32x32",
           32, {ResNetBlock::kBasic, {2, 2, 2, 2}, true}, nullptr);

}  // namespace dlpipe::engine
