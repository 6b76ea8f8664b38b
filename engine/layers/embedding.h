// A table of vectors looked up by number, as PyTorch's nn.Embedding. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// ids i64 [...] -> [..., size]. weight [count, size], standard normal.
class Embedding final : public Module {
 public:
  Embedding(int64_t count, int64_t size);
  Tensor forward(const Tensor& ids) override;
  std::string kind() const override { return "Embedding"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;

 private:
  Tensor weight_;
};

}  // namespace dlpipe::engine
