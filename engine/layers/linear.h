// A fully connected layer with its weights, as PyTorch's nn.Linear. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// x [..., in] -> [..., out]. weight [out, in], bias [out]. As a layer of its own it stays whole on every rank; of two that
/// follow each other the first may be split by its outputs and the second by its inputs, with one sum over the ranks.
class Linear final : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Linear"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;
  /// Each rank has some of the outputs, in each of `blocks` equal blocks of them, and answers these alone.
  void split_outputs(Collective& ranks, int64_t blocks = 1);
  /// Each rank takes some of the inputs, and all answer the sum. The bias stays whole.
  void split_inputs(Collective& ranks);

 protected:
  Tensor forward_activated(const Tensor& x, Activation activation) override;

 private:
  /// A split by inputs: the bias is added once, behind the sum.
  Tensor forward_summed(const Tensor& x);

  Tensor weight_;
  Tensor bias_;
  Collective* outputs_over_ = nullptr;  // the ranks that have the other outputs
  Collective* inputs_over_ = nullptr;   // the ranks that take the other inputs
};

}  // namespace dlpipe::engine
