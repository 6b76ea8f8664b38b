// VGG networks (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition",
// 2014) with torchvision's names and initial distribution. Internal to engine/models.
#pragma once

#include <array>
#include <memory>

#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {

/// 3x3 convolutions of each of the five groups, 64, 128, 256, 512 and 512 channels wide; a pool ends a group.
using VggGroups = std::array<int, 5>;

/// [N,H,W,channels] -> logits [N,classes], with initial weights drawn from arguments.seed. The classifier
/// sees every pixel of the last pool: at 224x224 its weights have torchvision's shapes (which at other sizes
/// averages to 7x7 pixels). Error (kMisuse) for images under 32x32.
std::shared_ptr<Module> build_vgg(const char* name, const VggGroups& groups, const ModelArguments& arguments);

}  // namespace dlpipe::engine
