#include "dlpipe/engine/models/vgg.h"

#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kHidden = 4096;

// Convolutions as for ReLU (fan out), matrices of deviation 0.01, biases 0.
void initialize_vgg(Module& model, uint64_t seed) {
  initialize_fan_out(model, seed);
  for (NamedTensor& parameter : model.parameters()) {
    if (parameter.tensor.rank() == 2) fill_normal(parameter.tensor, {seed, parameter.name}, 0.0, 0.01);
    if (parameter.tensor.rank() == 1) fill_constant(parameter.tensor, 0.0);
  }
}

}  // namespace

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

}  // namespace dlpipe::engine
