#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {
namespace {

/// 3x3 convolution, batch norm, ReLU.
class ConvBlock final : public Module {
 public:
  ConvBlock(int64_t in, int64_t out, int stride)
      : conv_(add_module("conv",
                         std::make_shared<Conv2d>(
                             in, out, 3, Conv2dArguments{.stride = stride, .padding = 1, .bias = false}))),
        bn_(add_module("bn", std::make_shared<BatchNorm2d>(out))) {}
  Tensor forward(const Tensor& x) override { return bn_->forward_relu((*conv_)(x)); }
  std::string kind() const override { return "ConvBlock"; }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> bn_;
};

/// Seven 3x3 convolutions, three of them with stride 2, for 32x32 images on a few CPU cores: each halving
/// doubles the channels, so that from the second on all cost about the same (43 M multiply-adds an image).
std::shared_ptr<Module> build(const ModelArguments& arguments) {
  check_model_arguments("cifarnet", arguments, 8);
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"stem", std::make_shared<ConvBlock>(arguments.channels, 32, 1)},
      {"down1", std::make_shared<ConvBlock>(32, 64, 2)},
      {"block1", std::make_shared<ConvBlock>(64, 64, 1)},
      {"down2", std::make_shared<ConvBlock>(64, 128, 2)},
      {"block2", std::make_shared<ConvBlock>(128, 128, 1)},
      {"down3", std::make_shared<ConvBlock>(128, 256, 2)},
      {"block3", std::make_shared<ConvBlock>(256, 256, 1)},
      {"pool", std::make_shared<GlobalAvgPool>()},
      {"fc", std::make_shared<Linear>(256, arguments.classes)},
  });
  initialize_fan_out(*model, arguments.seed);
  return model;
}

}  // namespace

extern const ModelRecord cifarnet_model;
const ModelRecord cifarnet_model = {
    "cifarnet", "seven 3x3 convolutions with batch norm; 1.2 M parameters, 0.09 GFLOP forward at 32x32", 32,
    build, "fc."};

}  // namespace dlpipe::engine
