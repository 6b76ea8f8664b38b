// The group of two convolutions that cifarnet and airbench are made of. Internal to engine/models.
#pragma once

#include <memory>
#include <string>

#include "dlpipe/engine/layers/layers.h"

namespace dlpipe::engine {

enum class GroupActivation : uint8_t { kRelu, kGelu };

/// Half the size, then a second convolution: 3x3, 2x2 maximum, batch norm, activation; 3x3, batch norm,
/// activation. After the groups of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
class HalfGroup final : public Module {
 public:
  /// `epsilon` and `momentum` (in PyTorch's sense) are the norms'.
  HalfGroup(int64_t in, int64_t out, GroupActivation activation, double epsilon = 1e-5,
            double momentum = 0.1);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Group"; }

 private:
  Tensor normalized(BatchNorm2d& norm, const Tensor& x) const;

  GroupActivation activation_;
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<MaxPool2d> pool_;
  std::shared_ptr<BatchNorm2d> norm1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm2d> norm2_;
};

}  // namespace dlpipe::engine
