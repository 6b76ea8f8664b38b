// Normalisation layers with their weights and running statistics, as PyTorch's. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// x [...,C], usually [N,H,W,C]. weight, bias, running_mean, running_var [C], num_batches_tracked [].
/// Training: normalises by the batch and updates the running statistics; eval, or frozen (weight doesn't
/// require a gradient): by the running statistics, which stay.
class BatchNorm2d final : public Module {
 public:
  explicit BatchNorm2d(int64_t channels, double epsilon = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& x) override { return normalize(x, false, Tensor()); }
  /// relu(forward(x) + residual) in one pass; `residual` (shape of x) may be undefined. Hooks see it as one
  /// call of this module.
  Tensor forward_relu(const Tensor& x, const Tensor& residual = Tensor());
  std::string kind() const override { return "BatchNorm2d"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;

 private:
  Tensor normalize(const Tensor& x, bool relu, const Tensor& residual);

  double epsilon_;
  double momentum_;
  Tensor weight_;
  Tensor bias_;
  Tensor running_mean_;
  Tensor running_var_;
  Tensor batches_tracked_;
};

/// What residual branches are added to, and a branch that is not added yet: x + branch, or x alone while that
/// is undefined. So the next norm adds in its own pass over memory.
struct Residual {
  Tensor x;
  Tensor branch = {};

  Tensor value() const;
};

/// Over the last axis. weight, bias [size].
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(int64_t size, double epsilon = 1e-5);
  Tensor forward(const Tensor& x) override;
  /// forward(stream.value()) in the dtype that products take under autocast, rounded in the same pass. The
  /// stream's branch is added to its x.
  Tensor forward_residual(Residual& stream);
  std::string kind() const override { return "LayerNorm"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;

 private:
  double epsilon_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace dlpipe::engine
