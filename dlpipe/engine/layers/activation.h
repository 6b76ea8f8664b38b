// Activations, flatten and dropout as modules, for Sequential; a model's forward may as well call the ops.
// One thread at a time; no state.
#pragma once

#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// A module around an elementwise op.
class Activation : public Module {
 public:
  using Function = Tensor (*)(const Tensor& x);
  Activation(const char* kind, Function function) : kind_(kind), function_(function) {}
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string kind() const override { return kind_; }

 private:
  const char* kind_;
  Function function_;
};

struct ReLU final : Activation {
  ReLU();
};
/// Exact (erf), as PyTorch's default.
struct GELU final : Activation {
  GELU();
};
struct SiLU final : Activation {
  SiLU();
};
struct Sigmoid final : Activation {
  Sigmoid();
};
struct Tanh final : Activation {
  Tanh();
};
/// Over the last axis.
struct Softmax final : Activation {
  Softmax();
};
/// [N,...] -> [N,K], images in PyTorch's C,H,W order.
struct Flatten final : Activation {
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
