// VGG networks (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition",
// 2014) with torchvision's names and initial distribution.
#include <array>
#include <memory>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"

namespace dlpipe::engine {
namespace {

/// The number of 3x3 convolutions in each of the five groups of 64, 128, 256, 512 and 512 channels. Each group ends with a pool.
using VggGroups = std::array<int, 5>;

constexpr int64_t kHidden = 4096;

// Convolutions: fan out, for ReLU. Matrices: normal with deviation 0.01. Biases: 0.
void initialize_vgg(Module& model, uint64_t seed) {
  initialize_fan_out(model, seed);
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.tensor.rank() == 2) fill_normal(parameter.tensor, {seed, parameter.name}, 0.0, 0.01);
    if (parameter.tensor.rank() == 1) fill_constant(parameter.tensor, 0.0);
  }
}

/// [N,H,W,channels] -> logits [N,classes], with initial weights drawn from arguments.seed. The classifier
/// reads every pixel of the last pool, so at 224x224 its weights have torchvision's shapes. (At other sizes
/// torchvision averages to 7x7 pixels.) Error (kMisuse) for images under 32x32.
std::shared_ptr<Module> build_vgg(const char* name, const VggGroups& groups,
                                  const ModelArguments& arguments) {
  const int64_t shrinks = int64_t{1} << groups.size();
  check_model_arguments(name, arguments, shrinks);
  auto features = std::make_shared<Sequential>();
  int64_t channels = arguments.channels;
  for (size_t group = 0; group < groups.size(); ++group) {
    const int64_t width = std::min<int64_t>(int64_t{64} << group, 512);
    for (int i = 0; i < groups[group]; ++i) {
      features->append(std::make_shared<Conv2d>(channels, width, 3, Conv2dArguments{.padding = 1}))
          .append(std::make_shared<ReLU>());
      channels = width;
    }
    features->append(std::make_shared<MaxPool2d>(2));
  }
  auto classifier = std::make_shared<Sequential>();
  const int64_t pixels = (arguments.height / shrinks) * (arguments.width / shrinks);
  classifier->append(std::make_shared<Linear>(channels * pixels, kHidden))
      .append(std::make_shared<ReLU>())
      .append(std::make_shared<Dropout>())
      .append(std::make_shared<Linear>(kHidden, kHidden))
      .append(std::make_shared<ReLU>())
      .append(std::make_shared<Dropout>())
      .append(std::make_shared<Linear>(kHidden, arguments.classes));
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"features", features}, {"flatten", std::make_shared<Flatten>()}, {"classifier", classifier}});
  initialize_vgg(*model, arguments.seed);
  return model;
}

/// A record of a VGG.
ModelRecord vgg(const char* name, const char* help, const VggGroups& groups) {
  return {.name = name,
          .help = help,
          .default_size = 224,
          .build = [=](const ModelArguments& arguments) { return build_vgg(name, groups, arguments); },
          .head = "classifier.6.",
          .published = &torchvision_weights};
}

}  // namespace

extern const ModelRecord vgg16_model, vgg19_model;
const ModelRecord vgg16_model =
    vgg("vgg16", "VGG-16, torchvision's names; 138.4 M parameters, 31.0 GFLOP forward at 224x224",
        {2, 2, 3, 3, 3});
const ModelRecord vgg19_model =
    vgg("vgg19", "VGG-19, torchvision's names; 143.7 M parameters, 39.3 GFLOP forward at 224x224",
        {2, 2, 4, 4, 4});

}  // namespace dlpipe::engine
