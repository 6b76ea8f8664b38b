// Every op as a function. Shapes are logical; images are [N,H,W,C]. Errors are dlpipe::Error, "[op] expected,
// got, do".
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/conversions.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/ops/activation_kind.h"

namespace dlpipe::engine {

// Elementwise, numpy broadcasting; mixed floating dtypes go to the wider.
Tensor add(const Tensor& a, const Tensor& b);
Tensor add_relu(const Tensor& a, const Tensor& b);  // relu(add(a, b)) in one pass
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN where one is
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);  // 1 where a > b, else 0
Tensor equal(const Tensor& a, const Tensor& b);
Tensor mask(const Tensor& x, const Tensor& keep);                   // x where keep isn't 0, else 0
Tensor scale(const Tensor& x, double factor, double offset = 0.0);  // x * factor + offset
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);  // exact, erf
/// x, relu(x) or gelu(x).
Tensor activate(const Tensor& x, Activation activation);
Tensor silu(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor clip(const Tensor& x, double low, double high);  // min(max(x, low), high)
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return sub(a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return mul(a, b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return div(a, b);
}
// cast() and reorder() are declared in core/conversions.h.
inline Tensor plain(const Tensor& x) {
  return x.layout() == Layout::kPlain ? x : reorder(x, Layout::kPlain);
}

// Reductions over `axes` (empty: all).
Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, bool keep_dims = false);
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, bool keep_dims = false);
Tensor max(const Tensor& x, int axis, bool keep_dims = false);  // gradient to the first maximum

// Shape. reshape, transpose and slice are views where strides allow.
Tensor reshape(const Tensor& x, const Shape& shape);  // one size may be -1
Tensor transpose(const Tensor& x, std::vector<int> permutation);
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end, int64_t step = 1);
Tensor concat(const std::vector<Tensor>& xs, int axis);
Tensor expand(const Tensor& x, const Shape& shape);  // broadcast, a view
using dlpipe::concat;  // base/text.h's, which the name above would hide in this namespace
/// [N,...] -> [N,K]. Image tensors [N,H,W,C] are emitted in C,H,W order, so that PyTorch's linear weights
/// mean the same.
Tensor flatten(const Tensor& x);

// Linear algebra. matmul: [..,M,K] x [..,K,N], batch axes broadcast; either side may be transposed.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
struct LinearAttrs {
  Activation activation = Activation::kNone;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("activation", self.activation);
  }
};
/// x [.., in], weight [out, in], bias [out] or undefined -> [.., out], activated in the same pass: the bits
/// of activate(linear(x, weight, bias), activation) and of its gradients.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
              Activation activation = Activation::kNone);
/// qkv [B,T,3*H*D], queries of all heads, then keys, then values -> [B,T,H*D]: scaled dot-product attention
/// in blocks, without a matrix of all pairs; `causal`: position t sees positions up to t.
Tensor self_attention(const Tensor& qkv, int heads, bool causal);
/// table [V, D], ids i64 [...] -> [..., D].
Tensor embedding(const Tensor& table, const Tensor& ids);

struct Conv2dAttrs {
  std::array<int, 2> stride = {1, 1};  // height, width
  std::array<int, 2> padding = {0, 0};
  std::array<int, 2> dilation = {1, 1};
  int groups = 1;
  Activation activation = Activation::kNone;  // or kRelu: in the same pass, as linear's

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("stride", self.stride);
    visit("padding", self.padding);
    visit("dilation", self.dilation);
    visit("groups", self.groups);
    visit("activation", self.activation);
  }
};
/// x [N,H,W,C], weight [O, C/groups, KH, KW] (PyTorch's OIHW), bias [O] or undefined -> [N,OH,OW,O].
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dAttrs& attrs = {});

struct Pool2dAttrs {
  std::array<int, 2> kernel = {2, 2};
  std::array<int, 2> stride = {2, 2};
  std::array<int, 2> padding = {0, 0};
  bool count_include_pad = true;  // average pooling, as PyTorch's default
  bool ceil_mode = false;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("kernel", self.kernel);
    visit("stride", self.stride);
    visit("padding", self.padding);
    visit("count_include_pad", self.count_include_pad);
    visit("ceil_mode", self.ceil_mode);
  }
};
Tensor max_pool2d(const Tensor& x, const Pool2dAttrs& attrs = {});
Tensor avg_pool2d(const Tensor& x, const Pool2dAttrs& attrs = {});
Tensor global_avg_pool(const Tensor& x);  // [N,H,W,C] -> [N,C]

/// x [..., C]; gamma, beta [C]. Training: normalises by the batch's statistics and updates running_mean/var
/// (f32 [C], PyTorch's rule: unbiased variance, running = (1-momentum)*running + momentum*batch). `residual`
/// (same shape as x) is added and `relu` applied in the same pass when asked.
struct BatchNormAttrs {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool training = true;
  bool relu = false;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("epsilon", self.epsilon);
    visit("momentum", self.momentum);
    visit("training", self.training);
    visit("relu", self.relu);
  }
};
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Tensor& running_mean,
                  Tensor& running_var, const BatchNormAttrs& attrs, const Tensor& residual = Tensor());
/// Over the last axis: x [..,C], gamma and beta f32 [C] -> y like x, of dtype `output` (f64 where x is).
/// Computed in f32, whatever x is.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5,
                  DType output = DType::kF32);
/// {s, layer_norm(s)} of s = x + branch, shaped alike, in one pass: the bits of the two ops. s has the wider
/// dtype of both, f32 for bf16 beside f16.
std::array<Tensor, 2> add_layer_norm(const Tensor& x, const Tensor& branch, const Tensor& gamma,
                                     const Tensor& beta, double epsilon = 1e-5, DType output = DType::kF32);

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
/// Keeps with probability 1-p and scales by 1/(1-p); the mask is Philox keyed by (seed, step, call) of
/// RandomState.
Tensor dropout(const Tensor& x, double p, bool training);
/// logits [N,K], target i64 [N], weight f32 [N] or undefined (0 drops a sample) -> scalar: weighted mean over
/// samples.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight = Tensor(),
                     double label_smoothing = 0.0);
Tensor mse(const Tensor& x, const Tensor& target);

/// u8 [N,H,W,C] -> normalised floating [N,H,W,C] (no gradient): prep's scale, bias, mixes, dtype.
Tensor batch_prep(const Tensor& images, const BatchPrep& prep);

/// Keys of random ops of this thread: set by the training loop before every step, so that a resumed run draws
/// alike.
struct RandomState {
  uint64_t seed = 0;
  int64_t step = 0;
  uint32_t call = 0;  // counts random ops within the step
  /// i64 [1] on a device, from write_random_key: ops there read it instead of seed and step, so that a
  /// captured step draws anew in every launch.
  Tensor device_key = {};
};
RandomState& random_state();
/// What the state's seed and step come to, into its device_key, in the calling thread's stream.
void write_random_key(const RandomState& state);

}  // namespace dlpipe::engine
