#include <numbers>

#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/layers/whiten.h"
#include "dlpipe/engine/models/half_group.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {
namespace {

constexpr double kNormMomentum = 0.4;  // PyTorch's sense: what the batch adds to running statistics
constexpr double kNormEpsilon = 1e-12;

std::shared_ptr<Module> group(int64_t in, int64_t out) {
  return std::make_shared<HalfGroup>(in, out, GroupActivation::kGelu, kNormEpsilon, kNormMomentum);
}

/// A linear layer without a bias, its outputs divided by the number of inputs.
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

constexpr int64_t kStemChannels = 24;

/// The network of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024: a whitening stem of 2x2,
/// GELU, three groups of 64, 256 and 256 channels, a 3x3 maximum (here over all that is left), a scaled head.
std::shared_ptr<Module> build(const ModelArguments& arguments) {
  check_model_arguments("airbench", arguments, 9);
  const auto left = [](int64_t size) { return static_cast<int>((size - 1) / 8); };
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"stem", std::make_shared<Conv2d>(arguments.channels, kStemChannels, 2)},
      {"gelu", std::make_shared<GELU>()},
      {"group1", group(kStemChannels, 64)},
      {"group2", group(64, 256)},
      {"group3", group(256, 256)},
      {"pool", std::make_shared<MaxPool2d>(Size2(left(arguments.height), left(arguments.width)))},
      {"flatten", std::make_shared<Flatten>()},
      {"head", std::make_shared<Head>(256, arguments.classes)},
  });
  initialize(*model, arguments.seed);
  for (NamedTensor& parameter : model->parameters()) {
    // Whatever a layer does not know yet, it passes on.
    if (parameter.tensor.rank() == 4 && parameter.name.starts_with("group")) fill_dirac(parameter.tensor);
    // Uniform with a standard deviation of 1.
    if (parameter.name == "head.fc.weight") {
      fill_uniform(parameter.tensor, {arguments.seed, parameter.name}, -std::numbers::sqrt3,
                   std::numbers::sqrt3);
    }
  }
  return model;
}

void whiten_stem(Module& model, const Tensor& images) {
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.name == "stem.weight" && kStemChannels <= 2 * images.size(3) * 4)
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
                                    build,
                                    "head.",
                                    whiten_stem};

}  // namespace dlpipe::engine
