#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet50", {ResNetBlock::kBottleneck, {3, 4, 6, 3}, false}, arguments);
}

}  // namespace

extern const ModelRecord resnet50_model;
const ModelRecord resnet50_model = {
    "resnet50",
    "ResNet-50 (stride in the 3x3), torchvision's names; 25.6 M parameters, 8.2 GFLOP forward at 224x224",
    224, build, "fc."};

}  // namespace dlpipe::engine
