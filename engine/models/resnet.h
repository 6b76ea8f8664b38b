// Residual networks (He et al., "Deep residual learning for image recognition", 2015) with the parameter
// names, shapes and initial distribution of torchvision's, so that its weights load by name. One thread at a
// time.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {

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

/// A ResNet with initial weights drawn from arguments.seed.
std::shared_ptr<Module> build_resnet(const char* name, const ResNetShape& shape,
                                     const ModelArguments& arguments);

}  // namespace dlpipe::engine
