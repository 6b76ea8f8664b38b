#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet50", {ResNetBlock::kBottleneck, {3, 4, 6, 3}, false}, arguments);
}

}  // namespace

extern const ModelRecord resnet50_model;
const ModelRecord resnet50_model = {
    .name = "resnet50",
    .help =
        "ResNet-50 (stride in the 3x3), torchvision's names; 25.6 M parameters, 8.2 GFLOP forward at 224x224",
    .default_size = 224,
    .build = build,
    .head = "fc.",
    .published = &torchvision_weights};

}  // namespace dlpipe::engine
