#include "dlpipe/engine/models/vgg.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_vgg("vgg16", {2, 2, 3, 3, 3}, arguments);
}

}  // namespace

extern const ModelRecord vgg16_model;
const ModelRecord vgg16_model = {
    .name = "vgg16",
    .help = "VGG-16, torchvision's names; 138.4 M parameters, 31.0 GFLOP forward at 224x224",
    .default_size = 224,
    .build = build,
    .head = "classifier.6.",
    .published = &torchvision_weights};

}  // namespace dlpipe::engine
