// Detectors that return, for each cell of a grid over the image, class logits and the sides of the object that the cell is in. As Tian et
// al., "FCOS: Fully Convolutional One-Stage Object Detection", 2019 (no anchors), reduced to one grid for CPUs. There is no centerness
// branch: instead, only cells near the center of an object are trained to detect it.
#include <cmath>
#include <memory>
#include <string>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {

namespace {

std::shared_ptr<Conv2d> convolution3(int64_t in, int64_t out, int stride) {
  return std::make_shared<Conv2d>(in, out, 3, Conv2dArguments{.stride = stride, .padding = 1, .bias = false});
}

/// 3x3 convolution, batch norm, ReLU.
class ConvUnit final : public Module {
 public:
  ConvUnit(int64_t in, int64_t out, int stride)
      : conv_(add_module("conv", convolution3(in, out, stride))),
        norm_(add_module("norm", std::make_shared<BatchNorm2d>(out))) {}
  Tensor forward(const Tensor& x) override { return norm_->forward_relu((*conv_)(x)); }
  std::string kind() const override { return "ConvUnit"; }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
};

/// Halves the size: a ConvUnit of stride 2, then two 3x3 convolutions with a shortcut, as in a ResNet's basic block.
class HalvingStage final : public Module {
 public:
  HalvingStage(int64_t in, int64_t out)
      : half_(add_module("half", std::make_shared<ConvUnit>(in, out, 2))),
        unit_(add_module("unit", std::make_shared<ConvUnit>(out, out, 1))),
        conv_(add_module("conv", convolution3(out, out, 1))),
        norm_(add_module("norm", std::make_shared<BatchNorm2d>(out))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = (*half_)(x);
    return norm_->forward_relu((*conv_)((*unit_)(y)), y);
  }
  std::string kind() const override { return "HalvingStage"; }

 private:
  std::shared_ptr<ConvUnit> half_, unit_;
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
};

constexpr int64_t kStride = 8;

/// A grid of stride 8, computed from the features of stride 8 and the upsampled features of stride 16.
class Detector final : public Module {
 public:
  Detector(const ModelArguments& arguments, int64_t base)
      : stem_(add_module("stem", std::make_shared<ConvUnit>(arguments.channels, base, 2))),
        stage4_(add_module("stage4", std::make_shared<HalvingStage>(base, 2 * base))),
        stage8_(add_module("stage8", std::make_shared<HalvingStage>(2 * base, 4 * base))),
        stage16_(add_module("stage16", std::make_shared<HalvingStage>(4 * base, 8 * base))),
        fuse_(add_module("fuse", std::make_shared<ConvUnit>(12 * base, 4 * base, 1))),
        class_tower_(add_module("class_tower", std::make_shared<ConvUnit>(4 * base, 4 * base, 1))),
        box_tower_(add_module("box_tower", std::make_shared<ConvUnit>(4 * base, 4 * base, 1))),
        classes_(add_module("classes", std::make_shared<Conv2d>(4 * base, arguments.classes, 1))),
        boxes_(add_module("boxes", std::make_shared<Conv2d>(4 * base, 4, 1))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor fine = (*stage8_)((*stage4_)((*stem_)(x)));
    const Tensor coarse = (*stage16_)(fine);
    const ResizeAttrs as_fine = {.size = {static_cast<int>(fine.size(1)), static_cast<int>(fine.size(2))},
                                 .mode = ResizeMode::kLinear,
                                 .coordinates = ResizeCoordinates::kHalfPixel};
    const Tensor both = (*fuse_)(engine::concat({fine, resize(coarse, as_fine)}, 3));
    return engine::concat({(*classes_)((*class_tower_)(both)), (*boxes_)((*box_tower_)(both))}, 3);
  }
  std::string kind() const override { return "Detector"; }

 private:
  std::shared_ptr<ConvUnit> stem_;
  std::shared_ptr<HalvingStage> stage4_, stage8_, stage16_;
  std::shared_ptr<ConvUnit> fuse_, class_tower_, box_tower_;
  std::shared_ptr<Conv2d> classes_, boxes_;
};

/// At first, every class has a probability of about 0.01 in every cell, so that the many cells without an object do not dominate
/// the loss of the first steps (Lin et al., 2017). The sides of every box are about two cells from the cell's center.
void initialize_detector(Module& model, uint64_t seed) {
  constexpr double kPrior = 0.01, kSide = 2, kDeviation = 0.01;
  initialize_fan_out(model, seed);
  for (NamedTensor& parameter : model.parameters()) {
    const bool is_class = parameter.name.starts_with("classes."),
               is_box = parameter.name.starts_with("boxes.");
    if (!is_class && !is_box) continue;
    if (parameter.tensor.rank() == 4) {
      fill_normal(parameter.tensor, {seed, parameter.name}, 0.0, kDeviation);
    } else {
      fill_constant(parameter.tensor, is_class ? -std::log((1 - kPrior) / kPrior) : std::log(kSide));
    }
  }
}

std::shared_ptr<Module> build_detector(const ModelArguments& arguments) {
  constexpr int64_t kBase = 16, kLeastSide = 16;
  check_model_arguments("detector_small", arguments, kLeastSide);
  auto model = std::make_shared<Detector>(arguments, kBase);
  initialize_detector(*model, arguments.seed);
  return model;
}

}  // namespace

extern const ModelRecord detector_small_model;
const ModelRecord detector_small_model = {.name = "detector_small",
                                          .help =
                                              "anchor-free detector with 16 to 128 channels on a grid of "
                                              "stride 8, for --task detect; 0.7 M parameters",
                                          .default_size = 0,
                                          .build = build_detector,
                                          .head = "classes.",
                                          .default_classes = 80,
                                          .output = ModelOutput::kBoxes,
                                          .boxes = {.stride = kStride}};

}  // namespace dlpipe::engine
