// The layers that models are built of, with PyTorch's names, shapes and order of weights; and Sequential.
//
// Ownership: a layer owns its tensors, a Sequential shares its layers. Threads: one thread at a time. Cost: forward() runs the
// ops that it names; an activation is fused into the product before it if there is a kernel for that.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dlpipe/module.h"  // IWYU pragma: export
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

// ---- layers one after another

// A model that can be split into pipeline stages, each with some consecutive layers. One thread at a time.
//
// Without stages forward() is run(). Module::keep_stage() keeps only a rank's own layers. With gradients, forward() then
// returns the logits on the last stage. On the other stages it returns a scalar, whose backward uses the gradient that the next
// stage sends. The stages' schedule determines the order of forward and backward passes. Without gradients the stages run one
// after another, and all return the logits.

class StagedModule : public Module {
 public:
  StagedModule();
  ~StagedModule() override;
  Tensor forward(const Tensor& x) final;
  StageLine* stage_line() override;

 protected:
  /// Runs the layers of this stage. `x` is the model's input or the output of the previous stage.
  virtual Tensor run(const Tensor& x) = 0;
  /// For keep_stage(): makes this a stage. Returns where to cut a sequence of layers with these costs: stages + 1 numbers.
  std::vector<size_t> begin_stage(Collective& stages, const std::vector<double>& costs);

 private:
  Tensor run_with_gradients(const Tensor& x);
  Tensor run_without(const Tensor& x);
  /// The last stage's logits, on all stages.
  Tensor shared_logits(const Tensor& own);

  std::unique_ptr<StageLine> line_;
};

// Layers one after another. One thread at a time.

/// Sequential({{"conv", std::make_shared<Conv2d>(3, 8, 3)}, {"relu", std::make_shared<ReLU>()}}), or
/// append() without names: "0", "1", ... as in PyTorch. A layer may compute the activation that follows it in the
/// same pass (Module::forward_fused), with the same bits.
class Sequential final : public StagedModule {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<std::pair<std::string, std::shared_ptr<Module>>> layers);
  Sequential& append(std::shared_ptr<Module> layer);
  Sequential& append(std::string name, std::shared_ptr<Module> layer);

  std::string kind() const override { return "Sequential"; }
  /// Cuts in front of layers with parameters, including those of nested Sequentials. Each layer must occur only once.
  void keep_stage(Collective& stages, const LayerCost& cost) override;

 protected:
  Tensor run(const Tensor& x) override;

 private:
  struct Layer {
    std::string name;  // as seen from the outermost Sequential
    const Module* module;
  };
  void list_layers(const std::string& prefix, std::vector<Layer>& layers) const;
  void keep_layers(const std::string& prefix, const std::unordered_set<std::string>& names);
};

/// A residual stream with a branch that has not been added yet: x + branch, or x if `branch` is undefined. The next
/// norm can then do the addition in its own pass over memory.
struct Residual {
  Tensor x;
  Tensor branch = {};

  Tensor value() const;
};

// ---- layers

struct Size2 {
  int height;
  int width;
  constexpr Size2(int both) : height(both), width(both) {}  // NOLINT: implicit by design
  constexpr Size2(int height_in, int width_in) : height(height_in), width(width_in) {}
  constexpr operator std::array<int, 2>() const { return {height, width}; }  // NOLINT: implicit by design
};

// Activations, flatten and dropout as modules, for use in Sequential; a model's forward may also call the ops. No state.

/// A module around an elementwise op.
class ActivationLayer : public Module {
 public:
  using Function = Tensor (*)(const Tensor& x);
  /// `activation`: the Activation of a fused product that equals `function`, if there is one.
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
/// Exact (erf), like PyTorch's default.
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

/// In training, zeroes elements with probability `p` and scales the rest by 1/(1-p); the mask is keyed by
/// random_state().
class Dropout final : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Dropout"; }

 private:
  double p_;
};

/// x [..., in] -> [..., out]. weight [out, in], bias [out]. A single Linear stays whole on every rank. Of two consecutive ones
/// the first may be split by its outputs and the second by its inputs, which needs one sum over the ranks.
class Linear final : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Linear"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;
  /// Each rank keeps a part of the outputs, cut within each of `blocks` equal blocks, and returns only these outputs.
  void split_outputs(Collective& ranks, int64_t blocks = 1);
  /// Each rank uses a part of the inputs, and all ranks return the sum. The bias stays whole.
  void split_inputs(Collective& ranks);

 protected:
  Tensor forward_activated(const Tensor& x, Activation activation) override;

 private:
  /// Forward when split by inputs: the bias is added once, after the sum.
  Tensor forward_summed(const Tensor& x);

  Tensor weight_;
  Tensor bias_;
  Collective* outputs_over_ = nullptr;  // the ranks that have the other outputs
  Collective* inputs_over_ = nullptr;   // the ranks that use the other inputs
};

struct Conv2dArguments {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  int groups = 1;
  bool bias = true;
};

/// x [N,H,W,in] -> [N,OH,OW,out]. weight [out, in/groups, KH, KW], bias [out].
class Conv2d final : public Module {
 public:
  Conv2d(int64_t in, int64_t out, Size2 kernel, const Conv2dArguments& arguments = {});
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Conv2d"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;

 protected:
  Tensor forward_activated(const Tensor& x, Activation activation) override;

 private:
  Conv2dAttrs attrs_;
  Tensor weight_;
  Tensor bias_;
};

struct Pool2dArguments {
  std::optional<Size2> stride;  // default: the kernel's size
  Size2 padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // average pooling only
};

/// [N,H,W,C] -> [N,OH,OW,C].
class MaxPool2d final : public Module {
 public:
  explicit MaxPool2d(Size2 kernel, const Pool2dArguments& arguments = {});
  Tensor forward(const Tensor& x) override { return max_pool2d(x, attrs_); }
  std::string kind() const override { return "MaxPool2d"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;

 private:
  Pool2dAttrs attrs_;
};

class AvgPool2d final : public Module {
 public:
  explicit AvgPool2d(Size2 kernel, const Pool2dArguments& arguments = {});
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, attrs_); }
  std::string kind() const override { return "AvgPool2d"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;

 private:
  Pool2dAttrs attrs_;
};

/// [N,H,W,C] -> [N,C]: PyTorch's AdaptiveAvgPool2d(1) and flatten in one.
class GlobalAvgPool final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return global_avg_pool(x); }
  std::string kind() const override { return "GlobalAvgPool"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
};

/// x [...,C], usually [N,H,W,C]. weight, bias, running_mean, running_var [C], num_batches_tracked [].
/// In training, normalises by the batch's statistics and updates the running ones. In eval mode, or frozen (weight
/// doesn't require a gradient), normalises by the running statistics and leaves them unchanged.
class BatchNorm2d final : public Module {
 public:
  explicit BatchNorm2d(int64_t channels, double epsilon = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& x) override { return normalize(x, false, Tensor()); }
  /// relu(forward(x) + residual) in one pass; `residual` has the shape of x and may be undefined. Hooks see one
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

/// Over the last axis. weight, bias [size].
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(int64_t size, double epsilon = 1e-5);
  Tensor forward(const Tensor& x) override;
  /// forward(stream.value()) in the dtype of products under autocast, rounded in the same pass. Adds the
  /// stream's branch to its x.
  Tensor forward_residual(Residual& stream);
  std::string kind() const override { return "LayerNorm"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  void reset_parameters(uint64_t seed, const std::string& prefix) override;

 private:
  double epsilon_;
  Tensor weight_;
  Tensor bias_;
};

/// ids i64 [...] -> [..., size]. weight [count, size], standard normal. split_over() splits it by rows.
class Embedding final : public Module {
 public:
  Embedding(int64_t count, int64_t size);
  Tensor forward(const Tensor& ids) override;
  /// x [..., size] -> [..., count]: the dot product with each vector of the table, for a head with tied weights. Forward hooks
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

enum class UpsampleMode : uint8_t { kNearest, kNearestExact, kBilinear };

struct UpsampleArguments {
  std::optional<Size2> size = {};  // of the output; default: `scale` times the input's size
  double scale = 2;
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;  // kBilinear only
};

/// [N,H,W,C] -> [N,OH,OW,C].
class Upsample final : public Module {
 public:
  explicit Upsample(const UpsampleArguments& arguments = {});
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Upsample"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;

 private:
  ResizeAttrs attrs_;
  std::optional<Size2> size_;
  double scale_;
};

/// x [B,T,width] -> [B,T,width]: scaled dot-product attention with `heads` heads between two linear layers, qkv
/// [3 * width, width] and proj.
class SelfAttention final : public Module {
 public:
  SelfAttention(int64_t width, int heads, bool causal);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "SelfAttention"; }
  double flops(const TensorSpec& x, const TensorSpec& y) const override;
  /// Each rank keeps a part of the heads.
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
  /// The same for a residual stream, whose last branch the next layer adds: over many blocks,
  /// the stream is read and written once per branch.
  Residual operator()(Residual stream);
  /// Multiplications per position of a sequence.
  static double cost(int64_t width, int64_t length);
  using Module::operator();
  std::string kind() const override { return "TransformerBlock"; }
  /// Each rank keeps a part of the heads and a part of fc1's outputs; norms stay whole.
  void split_over(Collective& ranks) override;

 private:
  Residual run(Residual stream);

  std::shared_ptr<LayerNorm> norm1_;
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<LayerNorm> norm2_;
  std::shared_ptr<Linear> fc1_;
  std::shared_ptr<Linear> fc2_;
};

/// Initialises as GPT-2: weights of linear layers and embeddings are normal with standard deviation 0.02, divided by
/// sqrt(2 * blocks) for those that end a residual branch (attn.proj, fc2); biases are 0, norms 1 and 0.
void initialize_transformer(Module& model, uint64_t seed, int blocks);

}  // namespace dlpipe::engine
