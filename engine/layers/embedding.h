// A table of vectors looked up by number, as PyTorch's nn.Embedding. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// ids i64 [...] -> [..., size]. weight [count, size], standard normal. Ranks split it by rows.
class Embedding final : public Module {
 public:
  Embedding(int64_t count, int64_t size);
  Tensor forward(const Tensor& ids) override;
  /// x [..., size] -> [..., count]: the product with each vector of the table, as a head has them that shares it. Forward hooks
  /// see this call, too.
  Tensor logits(const Tensor& x);
  std::string kind() const override { return "Embedding"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;
  void split_over(Collective& ranks) override;

 private:
  /// Rows of this rank's ids, zeros for the others'.
  Tensor own_rows(const Tensor& ids);

  int64_t count_;
  Tensor weight_;
  Collective* rows_over_ = nullptr;  // the ranks that have the other rows
  int64_t first_row_ = 0;            // of this rank's
};

}  // namespace dlpipe::engine
