// mlp and lenet, the networks for vectors and for small images.
#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build_mlp(const ModelArguments& arguments) {
  check_model_arguments("mlp", arguments, 1);
  constexpr int64_t kHidden1 = 512;
  constexpr int64_t kHidden2 = 256;
  const int64_t pixels = arguments.height * arguments.width * arguments.channels;
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"flatten", std::make_shared<Flatten>()},
      {"fc1", std::make_shared<Linear>(pixels, kHidden1)},
      {"relu1", std::make_shared<ReLU>()},
      {"fc2", std::make_shared<Linear>(kHidden1, kHidden2)},
      {"relu2", std::make_shared<ReLU>()},
      {"fc3", std::make_shared<Linear>(kHidden2, arguments.classes)},
  });
  initialize(*model, arguments.seed);
  return model;
}

}  // namespace

extern const ModelRecord mlp_model;
const ModelRecord mlp_model = {"mlp", "three linear layers, 512 and 256 hidden units, ReLU", 0, build_mlp,
                               "fc3."};

namespace {

/// LeNet-5 (LeCun et al., "Gradient-based learning applied to document recognition", 1998), but with ReLU and
/// max pooling, as usual today. The first convolution pads 28x28 images to the paper's 32x32.
std::shared_ptr<Module> build_lenet(const ModelArguments& arguments) {
  check_model_arguments("lenet", arguments, 12);
  // conv1 keeps the size, each pool halves it, conv2 reduces it by four.
  const int64_t height = (arguments.height / 2 - 4) / 2;
  const int64_t width = (arguments.width / 2 - 4) / 2;
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"conv1", std::make_shared<Conv2d>(arguments.channels, 6, 5, Conv2dArguments{.padding = 2})},
      {"relu1", std::make_shared<ReLU>()},
      {"pool1", std::make_shared<MaxPool2d>(2)},
      {"conv2", std::make_shared<Conv2d>(6, 16, 5)},
      {"relu2", std::make_shared<ReLU>()},
      {"pool2", std::make_shared<MaxPool2d>(2)},
      {"flatten", std::make_shared<Flatten>()},
      {"fc1", std::make_shared<Linear>(16 * height * width, 120)},
      {"relu3", std::make_shared<ReLU>()},
      {"fc2", std::make_shared<Linear>(120, 84)},
      {"relu4", std::make_shared<ReLU>()},
      {"fc3", std::make_shared<Linear>(84, arguments.classes)},
  });
  initialize(*model, arguments.seed);
  return model;
}

}  // namespace

extern const ModelRecord lenet_model;
const ModelRecord lenet_model = {"lenet", "LeNet-5 with ReLU and max pooling; 62 k parameters at 28x28", 0,
                                 build_lenet, "fc3."};

}  // namespace dlpipe::engine
