// A fully connected layer with its weights, as PyTorch's nn.Linear. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// x [..., in] -> [..., out]. weight [out, in], bias [out].
class Linear final : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Linear"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;

 protected:
  Tensor forward_activated(const Tensor& x, Activation activation) override;

 private:
  Tensor weight_;
  Tensor bias_;
};

}  // namespace dlpipe::engine
