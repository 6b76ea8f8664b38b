#include "dlpipe/engine/models/resnet.h"

#include "dlpipe/engine/layers/init.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Conv2d> make_conv3x3(int64_t in, int64_t out, int stride) {
  return std::make_shared<Conv2d>(in, out, 3, Conv2dArguments{.stride = stride, .padding = 1, .bias = false});
}
std::shared_ptr<Conv2d> make_conv1x1(int64_t in, int64_t out, int stride) {
  return std::make_shared<Conv2d>(in, out, 1, Conv2dArguments{.stride = stride, .bias = false});
}

/// The projection of a block whose input and output differ in shape; null where they agree.
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

}  // namespace

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

std::shared_ptr<Module> build_resnet(const char* name, const ResNetShape& shape,
                                     const ModelArguments& arguments) {
  check_model_arguments(name, arguments, 1);
  auto model = std::make_shared<ResNet>(shape, arguments);
  initialize_fan_out(*model, arguments.seed);
  return model;
}

}  // namespace dlpipe::engine
