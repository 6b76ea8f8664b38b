#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet200", {ResNetBlock::kBottleneck, {3, 24, 36, 3}, false}, arguments);
}

}  // namespace

extern const ModelRecord resnet200_model;
const ModelRecord resnet200_model = {
    "resnet200",
    "ResNet-200 (stride in the 3x3), names as resnet50; 64.7 M parameters, 30.1 GFLOP forward at 224x224",
    224, build, "fc."};

}  // namespace dlpipe::engine
