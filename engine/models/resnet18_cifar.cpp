#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet18_cifar", {ResNetBlock::kBasic, {2, 2, 2, 2}, true}, arguments);
}

}  // namespace

extern const ModelRecord resnet18_cifar_model;
const ModelRecord resnet18_cifar_model = {
    "resnet18_cifar",
    "ResNet-18 for small images: 3x3 stem, no max pool; 11.2 M parameters, 1.1 GFLOP forward at 32x32", 32,
    build, "fc."};

}  // namespace dlpipe::engine
