// U-Nets: class logits for each pixel. Ronneberger, Fischer and Brox, "U-Net: Convolutional Networks for Biomedical Image
// Segmentation", 2015, but with padded convolutions, batch norm, and bilinear upsampling, so that images may have any size.
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {

namespace {

/// Twice: 3x3 convolution, batch norm, ReLU.
class DoubleConv final : public Module {
 public:
  DoubleConv(int64_t in, int64_t out)
      : conv1_(add_module("conv1", convolution(in, out))),
        norm1_(add_module("norm1", std::make_shared<BatchNorm2d>(out))),
        conv2_(add_module("conv2", convolution(out, out))),
        norm2_(add_module("norm2", std::make_shared<BatchNorm2d>(out))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor half = norm1_->forward_relu((*conv1_)(x));
    return norm2_->forward_relu((*conv2_)(half));
  }
  std::string kind() const override { return "DoubleConv"; }

 private:
  static std::shared_ptr<Conv2d> convolution(int64_t in, int64_t out) {
    return std::make_shared<Conv2d>(in, out, 3, Conv2dArguments{.padding = 1, .bias = false});
  }

  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> norm1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm2d> norm2_;
};

/// Halves the size and doubles the channels `levels` times, then goes back up. Each level up also reads the output of its level down.
class UNet final : public Module {
 public:
  UNet(const ModelArguments& arguments, int64_t base, int levels)
      : pool_(add_module("pool", std::make_shared<MaxPool2d>(2))) {
    int64_t channels = arguments.channels;
    for (int level = 0; level <= levels; ++level) {
      const int64_t wider = base << level;
      down_.push_back(add_module(concat("down", level + 1), std::make_shared<DoubleConv>(channels, wider)));
      channels = wider;
    }
    for (int level = levels - 1; level >= 0; --level) {
      const int64_t skip = base << level;
      up_.push_back(add_module(concat("up", level + 1), std::make_shared<DoubleConv>(channels + skip, skip)));
      channels = skip;
    }
    head_ = add_module("head", std::make_shared<Conv2d>(channels, arguments.classes, 1));
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> skips;
    Tensor y = x;
    for (size_t level = 0; level < down_.size(); ++level) {
      y = (*down_[level])(level == 0 ? y : (*pool_)(y));
      skips.push_back(y);
    }
    for (size_t level = 0; level < up_.size(); ++level) {
      const Tensor& skip = skips[skips.size() - 2 - level];
      const ResizeAttrs larger = {.size = {static_cast<int>(skip.size(1)), static_cast<int>(skip.size(2))},
                                  .mode = ResizeMode::kLinear,
                                  .coordinates = ResizeCoordinates::kHalfPixel};
      y = (*up_[level])(engine::concat({skip, resize(y, larger)}, 3));
    }
    return (*head_)(y);
  }
  std::string kind() const override { return "UNet"; }

 private:
  std::shared_ptr<MaxPool2d> pool_;
  std::vector<std::shared_ptr<DoubleConv>> down_, up_;
  std::shared_ptr<Conv2d> head_;
};

template <int64_t kBase, int kLevels>
std::shared_ptr<Module> build_unet(const ModelArguments& arguments) {
  check_model_arguments("unet", arguments, int64_t{1} << kLevels);
  auto model = std::make_shared<UNet>(arguments, kBase, kLevels);
  initialize_fan_out(*model, arguments.seed);
  return model;
}

}  // namespace

extern const ModelRecord unet_model;
const ModelRecord unet_model = {
    .name = "unet",
    .help = "U-Net with 32 to 512 channels and batch norm: a class for each pixel; 7.8 M parameters",
    .default_size = 0,
    .build = build_unet<32, 4>,
    .head = "head.",
    .output = ModelOutput::kPixels};

extern const ModelRecord unet_small_model;
const ModelRecord unet_small_model = {
    .name = "unet_small",
    .help = "U-Net with 16 to 128 channels and batch norm: a class for each pixel; 0.5 M parameters",
    .default_size = 0,
    .build = build_unet<16, 3>,
    .head = "head.",
    .output = ModelOutput::kPixels};

}  // namespace dlpipe::engine
