// The layer that transformers repeat, with weights named as timm's and nanoGPT's blocks. One thread at a
// time.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/activation.h"
#include "dlpipe/engine/layers/linear.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/layers/norm.h"

namespace dlpipe::engine {

/// x [B,T,width] -> the same: scaled dot-product attention of `heads` heads between two linear layers, qkv
/// [3 * width, width] and proj.
class SelfAttention final : public Module {
 public:
  SelfAttention(int64_t width, int heads, bool causal);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "SelfAttention"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  /// Each rank has some of the heads.
  void split_over(Collective& ranks) override;

 private:
  int heads_;
  bool causal_;
  std::shared_ptr<Linear> qkv_;
  std::shared_ptr<Linear> proj_;
};

/// Pre-norm block (Xiong et al., "On layer normalization in the transformer architecture", 2020):
/// x += attn(norm1(x)); x += fc2(gelu(fc1(norm2(x)))), fc1 four times as wide.
class TransformerBlock final : public Module {
 public:
  TransformerBlock(int64_t width, int heads, bool causal);
  Tensor forward(const Tensor& x) override;
  /// The same of a stream, whose last branch is left to be added by whoever comes next: block after block,
  /// the stream is read and written once a branch.
  Residual operator()(Residual stream);
  /// Multiplications of one position of a sequence.
  static double cost(int64_t width, int64_t length);
  using Module::operator();
  std::string kind() const override { return "TransformerBlock"; }
  /// Each rank has some of the heads and some of fc1's outputs; norms stay whole.
  void split_over(Collective& ranks) override;

 private:
  Residual run(Residual stream);

  std::shared_ptr<LayerNorm> norm1_;
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<LayerNorm> norm2_;
  std::shared_ptr<Linear> fc1_;
  std::shared_ptr<Linear> fc2_;
};

/// As GPT-2 starts: weights of linear layers and embeddings normal with a deviation of 0.02, those that end a
/// residual branch (attn.proj, fc2) divided by sqrt(2 * blocks), biases 0, norms 1 and 0.
void initialize_transformer(Module& model, uint64_t seed, int blocks);

}  // namespace dlpipe::engine
