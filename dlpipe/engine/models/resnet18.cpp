#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet18", {ResNetBlock::kBasic, {2, 2, 2, 2}, false}, arguments);
}

}  // namespace

extern const ModelRecord resnet18_model;
const ModelRecord resnet18_model = {
    "resnet18", "ResNet-18, torchvision's names; 11.7 M parameters, 3.6 GFLOP forward at 224x224", 224, build,
    "fc."};

}  // namespace dlpipe::engine
