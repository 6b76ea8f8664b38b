#include "dlpipe/engine/models/vgg.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_vgg("vgg16", {2, 2, 3, 3, 3}, arguments);
}

}  // namespace

extern const ModelRecord vgg16_model;
const ModelRecord vgg16_model = {
    "vgg16", "VGG-16, torchvision's names; 138.4 M parameters, 31.0 GFLOP forward at 224x224", 224, build,
    "classifier.6."};

}  // namespace dlpipe::engine
