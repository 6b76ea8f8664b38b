#include "dlpipe/engine/models/vgg.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_vgg("vgg19", {2, 2, 4, 4, 4}, arguments);
}

}  // namespace

extern const ModelRecord vgg19_model;
const ModelRecord vgg19_model = {
    .name = "vgg19",
    .help = "VGG-19, torchvision's names; 143.7 M parameters, 39.3 GFLOP forward at 224x224",
    .default_size = 224,
    .build = build,
    .head = "classifier.6.",
    .published = &torchvision_weights};

}  // namespace dlpipe::engine
