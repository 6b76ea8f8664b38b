#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet34", {ResNetBlock::kBasic, {3, 4, 6, 3}, false}, arguments);
}

}  // namespace

extern const ModelRecord resnet34_model;
const ModelRecord resnet34_model = {
    "resnet34", "ResNet-34, torchvision's names; 21.8 M parameters, 7.3 GFLOP forward at 224x224", 224, build,
    "fc."};

}  // namespace dlpipe::engine
