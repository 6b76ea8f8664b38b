#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet18", {ResNetBlock::kBasic, {2, 2, 2, 2}, false}, arguments);
}

}  // namespace

extern const ModelRecord resnet18_model;
const ModelRecord resnet18_model = {
    .name = "resnet18",
    .help = "ResNet-18, torchvision's names; 11.7 M parameters, 3.6 GFLOP forward at 224x224",
    .default_size = 224,
    .build = build,
    .head = "fc.",
    .published = &torchvision_weights};

}  // namespace dlpipe::engine
