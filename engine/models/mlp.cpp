#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
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
const ModelRecord mlp_model = {"mlp", "three linear layers, 512 and 256 hidden units, ReLU", 0, build,
                               "fc3."};

}  // namespace dlpipe::engine
