// Functions of elements, products, reductions and norms of rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "dlpipe/engine/onnx/import_run.h"

namespace dlpipe::engine::onnx {

namespace {

Tensor float_input(Run& run, const NodeEntry& node) {
  return run.value(node, 0).ints ? run.tensor(node, 0) : run.value(node, 0).tensor;
}

// Ops of one input, whose order of axes doesn't matter.
template <Tensor (*kOp)(const Tensor&)>
void unary(Run& run, const NodeEntry& node) {
  run.set_like_input(node, kOp(float_input(run, node)));
}

Tensor reciprocal(const Tensor& x) {
  return div(Tensor::full({}, 1.0), x);
}
Tensor hard_swish(const Tensor& x) {
  return x * clip(scale(x, 1.0 / 6, 0.5), 0, 1);
}
Tensor absolute(const Tensor& x) {
  return relu(x) + relu(scale(x, -1.0));
}
Tensor softplus(const Tensor& x) {  // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
  return relu(x) + log(scale(exp(scale(absolute(x), -1.0)), 1.0, 1.0));
}

void gelu_op(Run& run, const NodeEntry& node) {
  const std::string kind = run.attribute(node, "approximate", "none");
  const Tensor x = float_input(run, node);
  if (kind == "none") return run.set_like_input(node, gelu(x));
  if (kind != "tanh") run.refuse(node, "approximate ", kind);
  // Hendrycks and Gimpel, 2016: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
  const Tensor inner = x * scale(x * x, 0.044715, 1.0);
  const Tensor curve = tanh(scale(inner, std::sqrt(2.0 / std::numbers::pi)));
  run.set_like_input(node, x * scale(curve, 0.5, 0.5));
}

void hard_sigmoid(Run& run, const NodeEntry& node) {
  const Tensor x = float_input(run, node);
  run.set_like_input(
      node, clip(scale(x, run.attribute(node, "alpha", 0.2), run.attribute(node, "beta", 0.5)), 0, 1));
}

void leaky_relu(Run& run, const NodeEntry& node) {
  const Tensor x = float_input(run, node);
  const double alpha = run.attribute(node, "alpha", 0.01);
  run.set_like_input(node, relu(x) + scale(relu(scale(x, -1.0)), -alpha));
}

void elu(Run& run, const NodeEntry& node) {
  const Tensor x = float_input(run, node);
  const Tensor below = scale(exp(clip(x, -std::numeric_limits<double>::infinity(), 0)), 1.0, -1.0);
  run.set_like_input(node, relu(x) + scale(below, run.attribute(node, "alpha", 1.0)));
}

void clip_op(Run& run, const NodeEntry& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = run.attribute(node, "min", -kInfinity), high = run.attribute(node, "max", kInfinity);
  if (run.has(node, 1)) low = run.number(node, 1);
  if (run.has(node, 2)) high = run.number(node, 2);
  run.set_like_input(node, clip(float_input(run, node), low, high));
}

void pow_op(Run& run, const NodeEntry& node) {
  const double exponent = run.number(node, 1);
  const Tensor x = float_input(run, node);
  if (exponent == 1.0) return run.set_like_input(node, x);
  if (exponent == 2.0) return run.set_like_input(node, x * x);
  if (exponent == 3.0) return run.set_like_input(node, x * x * x);
  if (exponent == 0.5) return run.set_like_input(node, sqrt(x));
  if (exponent == -1.0) return run.set_like_input(node, reciprocal(x));
  run.refuse(node, "dlpipe takes the exponents -1, 0.5, 1, 2 and 3, got ", exponent);
}

// Products.

void matmul_op(Run& run, const NodeEntry& node) {
  const Tensor a = run.tensor(node, 0), b = run.tensor(node, 1);
  if (a.rank() < 2 || b.rank() < 2)
    run.refuse(node, "dlpipe multiplies matrices, got ", a.shape().to_string(), " and ",
               b.shape().to_string());
  if (b.rank() == 2 && a.rank() > 2) return run.set(node, linear(a, transpose(b, {1, 0}), Tensor()));
  run.set(node, matmul(a, b));
}

void gemm(Run& run, const NodeEntry& node) {
  const double alpha = run.attribute(node, "alpha", 1.0), beta = run.attribute(node, "beta", 1.0);
  Tensor a = run.tensor(node, 0), b = run.tensor(node, 1), c = run.optional_tensor(node, 2);
  if (a.rank() != 2 || b.rank() != 2) run.refuse(node, "expected two matrices");
  const bool turn_a = run.attribute(node, "transA", int64_t{0}) != 0,
             turn_b = run.attribute(node, "transB", int64_t{0}) != 0;
  if (turn_a) a = transpose(a, {1, 0});
  if (!turn_b) b = transpose(b, {1, 0});
  if (c.defined() && beta != 1.0) c = scale(c, beta);
  const bool is_bias = c.defined() && c.rank() == 1 && c.size(0) == b.size(0);
  if (alpha == 1.0 && (!c.defined() || is_bias)) return run.set(node, linear(a, b, c));
  Tensor y = linear(a, b, Tensor());
  if (alpha != 1.0) y = scale(y, alpha);
  run.set(node, c.defined() ? y + c : y);
}

// Reductions, softmax, norms.

template <Tensor (*kOp)(const Tensor&, const std::vector<int>&, bool)>
void reduce(Run& run, const NodeEntry& node) {
  const Shape shape = run.shape(node, 0);
  const std::vector<int64_t> given = run.ints_or_attribute(node, 1, "axes", {});
  const bool keep = run.attribute(node, "keepdims", int64_t{1}) != 0;
  std::vector<int> axes = run.axes(node, given, shape.rank());
  if (axes.empty() && run.attribute(node, "noop_with_empty_axes", int64_t{0}) != 0)
    return run.set_value(node, run.value(node, 0));
  const bool pixels_alone = axes == std::vector<int>{2, 3};
  if (run.value(node, 0).is_image && (keep || pixels_alone)) {
    for (int& axis : axes) axis = kImageAxis[static_cast<size_t>(axis)];
    const Tensor y = kOp(run.value(node, 0).tensor, axes, keep);
    if (keep) return run.set_image(node, y);
    return run.set(node, y);  // [N,C]
  }
  run.set(node, kOp(run.tensor(node, 0), axes, keep));
}

Tensor largest(const Tensor& x, const std::vector<int>& axes, bool keep) {
  std::vector<int> order = axes;
  if (order.empty()) {
    for (int axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  }
  std::sort(order.rbegin(), order.rend());
  Tensor y = x;
  for (const int axis : order) y = max(y, axis, keep);
  return y;
}

template <Tensor (*kOp)(const Tensor&, int)>
void softmax_op(Run& run, const NodeEntry& node) {
  const int rank = run.shape(node, 0).rank();
  const int axis =
      run.axis(node, run.attribute(node, "axis", run.opset() < 13 ? int64_t{1} : int64_t{-1}), rank);
  if (run.opset() < 13 && axis != rank - 1)
    run.refuse(node, "before opset 13 it joins all axes from ", axis,
               " on; export the model with a newer opset");
  if (run.value(node, 0).is_image)
    return run.set_image(node, kOp(run.value(node, 0).tensor, kImageAxis[static_cast<size_t>(axis)]));
  run.set(node, kOp(run.tensor(node, 0), axis));
}

// Over all axes from `axis` on, which dlpipe's op sees as one.
void layer_normalization(Run& run, const NodeEntry& node) {
  const Tensor x = run.tensor(node, 0);
  const int axis = run.axis(node, run.attribute(node, "axis", int64_t{-1}), x.rank());
  const double epsilon = run.attribute(node, "epsilon", 1e-5);
  int64_t width = 1;
  Shape rows;
  for (int i = 0; i < axis; ++i) rows.push_back(x.size(i));
  for (int i = axis; i < x.rank(); ++i) width *= x.size(i);
  rows.push_back(width);
  const auto flat = [&](const Tensor& tensor) {
    return tensor.rank() == 1 ? tensor : reshape(tensor, {width});
  };
  const Tensor gamma = flat(run.tensor(node, 1));
  const Tensor beta = run.has(node, 2) ? flat(run.tensor(node, 2)) : Tensor::zeros({width});
  const bool is_last = axis == x.rank() - 1;
  const Tensor y = layer_norm(is_last ? x : reshape(x, rows), gamma, beta, epsilon);
  run.set(node, is_last ? y : reshape(y, x.shape()));
  if (node.outputs.size() < 2) return;
  std::vector<int> axes;
  for (int i = axis; i < x.rank(); ++i) axes.push_back(i);
  const Tensor center = mean(x, axes, true);
  const Tensor distance = x - center;
  run.set(node, center, 1);
  run.set(node, reciprocal(sqrt(scale(mean(distance * distance, axes, true), 1.0, epsilon))), 2);
}

void swish(Run& run, const NodeEntry& node) {
  const Tensor x = float_input(run, node);
  const double alpha = run.attribute(node, "alpha", 1.0);
  run.set_like_input(node, alpha == 1.0 ? silu(x) : x * sigmoid(scale(x, alpha)));
}

constexpr std::array kMathOps = {
    ImportedOp{"Abs", unary<absolute>},
    ImportedOp{"Clip", clip_op},
    ImportedOp{"Elu", elu},
    ImportedOp{"Erf", unary<erf>},
    ImportedOp{"Exp", unary<exp>},
    ImportedOp{"Gelu", gelu_op},
    ImportedOp{"Gemm", gemm},
    ImportedOp{"HardSigmoid", hard_sigmoid},
    ImportedOp{"HardSwish", unary<hard_swish>},
    ImportedOp{"LayerNormalization", layer_normalization},
    ImportedOp{"LeakyRelu", leaky_relu},
    ImportedOp{"Log", unary<log>},
    ImportedOp{"LogSoftmax", softmax_op<log_softmax>},
    ImportedOp{"MatMul", matmul_op},
    ImportedOp{"Pow", pow_op},
    ImportedOp{"Reciprocal", unary<reciprocal>},
    ImportedOp{"ReduceMax", reduce<largest>},
    ImportedOp{"ReduceMean", reduce<mean>},
    ImportedOp{"ReduceSum", reduce<sum>},
    ImportedOp{"Relu", unary<relu>},
    ImportedOp{"Sigmoid", unary<sigmoid>},
    ImportedOp{"Softmax", softmax_op<softmax>},
    ImportedOp{"Softplus", unary<softplus>},
    ImportedOp{"Sqrt", unary<sqrt>},
    ImportedOp{"Swish", swish},
    ImportedOp{"Tanh", unary<tanh>},
};

}  // namespace

std::span<const ImportedOp> math_ops() {
  return kMathOps;
}

}  // namespace dlpipe::engine::onnx
