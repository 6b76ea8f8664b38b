#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/layers/whiten.h"
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

/// 3x3 convolution with a bias, ReLU: no norm, as whitened patches need none.
class Stem final : public Module {
 public:
  Stem(int64_t in, int64_t out)
      : conv_(add_module("conv", std::make_shared<Conv2d>(in, out, 3, Conv2dArguments{.padding = 1}))) {}
  Tensor forward(const Tensor& x) override { return relu((*conv_)(x)); }
  std::string kind() const override { return "Stem"; }

 private:
  std::shared_ptr<Conv2d> conv_;
};

constexpr int64_t kStemChannels = 32;

/// Seven 3x3 convolutions, three of them with stride 2, for 32x32 images on a few CPU cores: each halving
/// doubles the channels, so that from the second on all cost about the same (43 M multiply-adds an image).
std::shared_ptr<Module> build(const ModelArguments& arguments) {
  check_model_arguments("cifarnet", arguments, 8);
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"stem", std::make_shared<Stem>(arguments.channels, kStemChannels)},
      {"down1", std::make_shared<ConvBlock>(kStemChannels, 64, 2)},
      {"block1", std::make_shared<ConvBlock>(64, 64, 1)},
      {"down2", std::make_shared<ConvBlock>(64, 128, 2)},
      {"block2", std::make_shared<ConvBlock>(128, 128, 1)},
      {"down3", std::make_shared<ConvBlock>(128, 256, 2)},
      {"block3", std::make_shared<ConvBlock>(256, 256, 1)},
      {"pool", std::make_shared<GlobalAvgPool>()},
      {"fc", std::make_shared<Linear>(256, arguments.classes)},
  });
  initialize_fan_out(*model, arguments.seed);
  for (NamedTensor& parameter : model->parameters()) {
    // Whatever a layer does not know yet, it passes on.
    if (parameter.tensor.rank() == 4 && !parameter.name.starts_with("stem.")) fill_dirac(parameter.tensor);
  }
  return model;
}

void whiten_stem(Module& model, const Tensor& images) {
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.name == "stem.conv.weight" && kStemChannels <= 2 * images.size(3) * 9)
      fill_whitening(parameter.tensor, images);
    if (parameter.name == "stem.conv.bias") fill_constant(parameter.tensor, 0.0);
  }
}

}  // namespace

extern const ModelRecord cifarnet_model;
const ModelRecord cifarnet_model = {
    "cifarnet", "seven 3x3 convolutions with batch norm; 1.2 M parameters, 0.09 GFLOP forward at 32x32",
    32,         build,
    "fc.",      whiten_stem};

}  // namespace dlpipe::engine
