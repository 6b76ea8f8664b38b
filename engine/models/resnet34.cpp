#include "dlpipe/engine/models/resnet.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return build_resnet("resnet34", {ResNetBlock::kBasic, {3, 4, 6, 3}, false}, arguments);
}

}  // namespace

extern const ModelRecord resnet34_model;
const ModelRecord resnet34_model = {
    .name = "resnet34",
    .help = "ResNet-34, torchvision's names; 21.8 M parameters, 7.3 GFLOP forward at 224x224",
    .default_size = 224,
    .build = build,
    .head = "fc.",
    .published = &torchvision_weights};

}  // namespace dlpipe::engine
