// Activations, flatten and dropout as modules, for Sequential; a model's forward may as well call the ops.
// One thread at a time; no state.
#pragma once

#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// A module around an elementwise op.
class ActivationLayer : public Module {
 public:
  using Function = Tensor (*)(const Tensor& x);
  /// `activation`: what a product calls this function, if it knows it.
  ActivationLayer(const char* kind, Function function, Activation activation = Activation::kNone)
      : kind_(kind), function_(function), activation_(activation) {}
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string kind() const override { return kind_; }

 protected:
  Activation activation() const override { return activation_; }

 private:
  const char* kind_;
  Function function_;
  Activation activation_;
};

struct ReLU final : ActivationLayer {
  ReLU();
};
/// Exact (erf), as PyTorch's default.
struct GELU final : ActivationLayer {
  GELU();
};
struct SiLU final : ActivationLayer {
  SiLU();
};
struct Sigmoid final : ActivationLayer {
  Sigmoid();
};
struct Tanh final : ActivationLayer {
  Tanh();
};
/// Over the last axis.
struct Softmax final : ActivationLayer {
  Softmax();
};
/// [N,...] -> [N,K], images in PyTorch's C,H,W order.
struct Flatten final : ActivationLayer {
  Flatten();
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
};

/// In training drops with probability `p` and scales the rest by 1/(1-p); the mask is keyed by
/// random_state().
class Dropout final : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Dropout"; }

 private:
  double p_;
};

}  // namespace dlpipe::engine
