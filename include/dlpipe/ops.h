// The ops as functions. Shapes are logical; images are [N,H,W,C]. Errors are dlpipe::Error: "[op] expected ..., got ...; ...".
//
// Each function makes one or a few calls of apply (dlpipe/op.h). It is differentiable if its inputs are floating, is autocast
// as its record says, and runs in the memory layout that suits its kernels.
//
// Ownership: results are new tensors, or views where stated. Threads: any thread; kernels use the engine's threads internally.
// Cost: on the CPU an op is complete when it returns; on a GPU it is queued.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/error.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// The activations that a product can compute in its own pass over memory.
enum class Activation : uint8_t {
  kNone,
  kRelu,
  kGelu,  // exact, erf
};

/// Their names in graph files.
constexpr std::array<std::string_view, 3> attr_names(Activation) {
  return {"none", "relu", "gelu"};
}

// Elementwise, with NumPy broadcasting; mixed floating dtypes are converted to the wider.
Tensor add(const Tensor& a, const Tensor& b);
Tensor add_relu(const Tensor& a, const Tensor& b);  // relu(add(a, b)) in one pass
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN if either is NaN
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
// cast() and reorder() are declared in dlpipe/tensor.h.
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
using dlpipe::concat;  // dlpipe/error.h's, which the name above would hide in this namespace
/// [N,...] -> [N,K]. Image tensors [N,H,W,C] are flattened in C,H,W order, so that PyTorch's linear weights
/// fit.
Tensor flatten(const Tensor& x);

// Linear algebra. matmul: [..,M,K] x [..,K,N], batch axes broadcast; either side may be transposed.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
struct LinearAttrs {
  Activation activation = Activation::kNone;

  static void each(auto& self, auto&& visit) {  // for graph files
    visit("activation", self.activation);
  }
};
/// x [.., in], weight [out, in], bias [out] or undefined -> [.., out], with the activation in the same pass: result and
/// gradients have the bits of activate(linear(x, weight, bias), activation).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
              Activation activation = Activation::kNone);
/// qkv [B,T,3*H*D], queries of all heads, then keys, then values -> [B,T,H*D]: scaled dot-product attention
/// in blocks, without a T x T matrix; `causal`: position t attends to positions up to t.
Tensor self_attention(const Tensor& qkv, int heads, bool causal);
/// table [V, D], ids i64 [...] -> [..., D].
Tensor embedding(const Tensor& table, const Tensor& ids);

struct Conv2dAttrs {
  std::array<int, 2> stride = {1, 1};  // height, width
  std::array<int, 2> padding = {0, 0};
  std::array<int, 2> dilation = {1, 1};
  int groups = 1;
  Activation activation = Activation::kNone;  // or kRelu: in the same pass, as in linear()

  static void each(auto& self, auto&& visit) {  // for graph files
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

  static void each(auto& self, auto&& visit) {  // for graph files
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
/// (same shape as x), if defined, is added and `relu`, if true, is applied in the same pass.
struct BatchNormAttrs {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool training = true;
  bool relu = false;

  static void each(auto& self, auto&& visit) {  // for graph files
    visit("epsilon", self.epsilon);
    visit("momentum", self.momentum);
    visit("training", self.training);
    visit("relu", self.relu);
  }
};
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Tensor& running_mean,
                  Tensor& running_var, const BatchNormAttrs& attrs, const Tensor& residual = Tensor());
/// Over the last axis: x [..,C], gamma and beta f32 [C] -> y with the shape of x and dtype `output` (f64 if x is f64).
/// Computed in f32 for any dtype of x.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5,
                  DType output = DType::kF32);
/// {s, layer_norm(s)} with s = x + branch, of the same shape, in one pass with the bits of the two ops. s has the wider
/// dtype of the two, f32 for bf16 with f16.
std::array<Tensor, 2> add_layer_norm(const Tensor& x, const Tensor& branch, const Tensor& gamma,
                                     const Tensor& beta, double epsilon = 1e-5, DType output = DType::kF32);

// Resizing images as PyTorch's F.interpolate and ONNX's Resize do.

/// What an output pixel is computed from along each axis: the nearest input pixel, or its two neighbours.
enum class ResizeMode : uint8_t { kNearest, kLinear };
constexpr std::array<std::string_view, 2> attr_names(ResizeMode) {
  return {"nearest", "linear"};
}

/// The input position that corresponds to output pixel i along an axis; `scale` is output size / input size.
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,         // (i + 0.5) / scale - 0.5: pixel centers. PyTorch's align_corners=False, nearest-exact
  kPytorchHalfPixel,  // the same, but 0 if the output is one pixel long
  kHalfPixelSymmetric,  // the same, but centers of input and output coincide if scale isn't output / input
  kAsymmetric,    // i / scale. PyTorch's nearest, which in f32 is sometimes off by one pixel (2 pixels to 82)
  kAlignCorners,  // i * (in - 1) / (out - 1)
};
constexpr std::array<std::string_view, 5> attr_names(ResizeCoordinates) {
  return {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners"};
}

/// How kNearest rounds an input position to a pixel: always down or up, or to the nearest with ties down or up.
enum class ResizeRounding : uint8_t { kFloor, kCeil, kPreferFloor, kPreferCeil };
constexpr std::array<std::string_view, 4> attr_names(ResizeRounding) {
  return {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
}

struct ResizeAttrs {
  std::array<int, 2> size = {1, 1};  // height, width of the output
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kAsymmetric;
  ResizeRounding rounding = ResizeRounding::kFloor;  // for kNearest
  // The scale for computing positions if it differs from output / input: 7 pixels times 1.5 are 10. 0: output / input.
  // kAlignCorners always uses the output's corners, regardless of the scale.
  double scale_height = 0;
  double scale_width = 0;

  static void each(auto& self, auto&& visit) {  // for graph files
    visit("size", self.size);
    visit("mode", self.mode);
    visit("coordinates", self.coordinates);
    visit("rounding", self.rounding);
    visit("scale_height", self.scale_height);
    visit("scale_width", self.scale_width);
  }
};

/// x [N,H,W,C] -> [N,size,C]. No antialiasing: a smaller output skips pixels.
Tensor resize(const Tensor& x, const ResizeAttrs& attrs);

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
/// Keeps elements with probability 1-p and scales them by 1/(1-p); the mask is from Philox, keyed by (seed, step, call)
/// of RandomState.
Tensor dropout(const Tensor& x, double p, bool training);
/// logits [N,K], target i64 [N], weight f32 [N] or undefined (0 drops a sample) -> scalar: weighted mean over
/// samples.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight = Tensor(),
                     double label_smoothing = 0.0);
Tensor mse(const Tensor& x, const Tensor& target);

/// u8 [N,H,W,C] -> normalised floating [N,H,W,C] (no gradient): prep's scale, bias, mixes, dtype.
Tensor batch_prep(const Tensor& images, const BatchPrep& prep);

/// The key of this thread's random ops. The training loop sets it before every step, so that a resumed run draws
/// the same numbers.
struct RandomState {
  uint64_t seed = 0;
  int64_t step = 0;
  uint32_t call = 0;  // counts random ops within the step
  /// i64 [1] on a device, set by write_random_key(). Ops on the device read it instead of seed and step, so that a
  /// captured step draws new numbers in every launch.
  Tensor device_key = {};
};
RandomState& random_state();
/// Writes the key of the state's seed and step to its device_key, in the calling thread's stream.
void write_random_key(const RandomState& state);

}  // namespace dlpipe::engine
