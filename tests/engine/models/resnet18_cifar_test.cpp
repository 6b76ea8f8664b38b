#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

TEST(Resnet18Cifar, DoesWhatModelsDo) {
  check_model("resnet18_cifar", {4, 3, 16, 16, 1});
}

TEST(Resnet18Cifar, IsResnet18WithASmallStem) {
  // Per class count 10: torchvision's 11,689,512 less the 7x7 stem and 990 classes, plus the 3x3 stem.
  EXPECT_EQ(count_parameters("resnet18_cifar", {10, 3, 32, 32, 0}),
            11689512 - 64 * 3 * 49 - 990 * 513 + 64 * 3 * 9);
}

TEST(Resnet18Cifar, KeepsTheSizeUntilLayer2) {
  const ModelArguments arguments = {10, 3, 32, 32, 0};
  const auto model = value_or_throw(ModelRegistry::builtin().find("resnet18_cifar"))->build(arguments);
  std::map<std::string, Shape> outputs;
  for (const LayerSummary& layer : summarize(*model, arguments, 2).layers) outputs[layer.name] = layer.output;
  EXPECT_EQ(outputs["layer1.1.conv2"], (Shape{2, 32, 32, 64}));
  EXPECT_EQ(outputs["layer4.1.conv2"], (Shape{2, 4, 4, 512}));
}

}  // namespace
}  // namespace dlpipe::engine
