// Imports elementwise functions, products and reductions.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "engine/onnx/import_run.h"
#include "engine/onnx/known_elements.h"
#include "engine/ops/unary.h"

namespace dlpipe::engine::onnx {

namespace {

Tensor float_input(Run& run, const NodeEntry& node) {
  return run.value(node, 0).ints ? run.tensor(node, 0) : run.value(node, 0).tensor;
}

// Ops with one input that don't depend on the order of axes.
template <Tensor (*kOp)(const Tensor&)>
void unary(Run& run, const NodeEntry& node) {
  run.set_like_input(node, kOp(float_input(run, node)));
}

// Applies `op` to floats, or to integers that depend on the input. Integers are computed in f64, which is exact below 2^53.
template <class Function>
Tensor of_numbers(const Tensor& x, const Function& op) {
  return is_floating(x.dtype()) ? op(x) : cast(op(cast(x, DType::kF64)), DType::kI64);
}

// Functions composed of other ops end in _of: the engine may get an op with ONNX's name, and a call would be ambiguous.
Tensor reciprocal_of(const Tensor& x) {
  return div(Tensor::full({}, 1.0), x);
}
Tensor hard_swish_of(const Tensor& x) {
  return x * clip(scale(x, 1.0 / 6, 0.5), 0, 1);
}
Tensor absolute_of(const Tensor& x) {
  return relu(x) + relu(scale(x, -1.0));
}
Tensor softplus_of(const Tensor& x) {  // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
  const Tensor positive = relu(x);
  return positive + log(scale(exp(negative_part(x) - positive), 1.0, 1.0));
}

Tensor softsign_of(const Tensor& x) {
  return x / scale(absolute_of(x), 1.0, 1.0);
}
Tensor mish_of(const Tensor& x) {
  return x * tanh(softplus_of(x));
}

void absolute_op(Run& run, const NodeEntry& node) {
  if (!run.is_known(node, 0))
    return run.set_like_input(node, of_numbers(run.value(node, 0).tensor, absolute_of));
  const auto absolute = [](int64_t a) { return a < 0 ? known_sub(0, a) : a; };
  run.set_ints(node, known_elements(run, node, absolute, run.ints(node, 0)));
}

void gelu_op(Run& run, const NodeEntry& node) {
  const std::string kind = run.attribute(node, "approximate", "none");
  const Tensor x = float_input(run, node);
  if (kind == "none") return run.set_like_input(node, gelu(x));
  if (kind != "tanh") run.refuse(node, "its approximate is '", kind, "'; expected none or tanh");
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
  run.set_like_input(node, relu(x) + scale(negative_part(x), alpha));
}

Tensor elu_of(const Tensor& x, double alpha,
              double width = 1.0) {  // max(x, 0) + alpha (e^(min(x, 0) / width) - 1)
  const Tensor negative = negative_part(x);
  return relu(x) + scale(exp(width == 1.0 ? negative : scale(negative, 1 / width)), alpha, -alpha);
}
void elu(Run& run, const NodeEntry& node) {
  run.set_like_input(node, elu_of(float_input(run, node), run.attribute(node, "alpha", 1.0)));
}
void celu(Run& run, const NodeEntry& node) {
  const double alpha = run.attribute(node, "alpha", 1.0);
  run.set_like_input(node, elu_of(float_input(run, node), alpha, alpha));
}
void selu(Run& run, const NodeEntry& node) {  // Klambauer et al., 2017
  const double alpha = run.attribute(node, "alpha", 1.67326319217681884765625),
               gamma = run.attribute(node, "gamma", 1.05070102214813232421875);
  run.set_like_input(node, scale(elu_of(float_input(run, node), alpha), gamma));
}

void clip_op(Run& run, const NodeEntry& node) {
  if (run.is_known(node, 0)) {
    KnownInts ints = run.ints(node, 0);
    if (run.has(node, 1)) ints = known_elements(run, node, known_max, ints, run.ints(node, 1));
    if (run.has(node, 2)) ints = known_elements(run, node, known_min, ints, run.ints(node, 2));
    return run.set_ints(node, std::move(ints));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = run.attribute(node, "min", -kInfinity), high = run.attribute(node, "max", kInfinity);
  if (run.has(node, 1)) low = run.number(node, 1);
  if (run.has(node, 2)) high = run.number(node, 2);
  const auto clipped = [&](const Tensor& x) { return clip(x, low, high); };
  run.set_like_input(node, of_numbers(run.value(node, 0).tensor, clipped));
}

// Exponents that are multiples of 0.5: products, a square root, and one division. The roots of minus infinity and of -0 are those of
// sqrt, NaN and -0, not infinity and 0 as in C's pow: this would take three more ops in each norm that is written with Pow.
void pow_op(Run& run, const NodeEntry& node) {
  const double exponent = run.number(node, 1), halves = std::fabs(exponent) * 2;
  constexpr double kMostHalves = 16;
  if (halves != std::floor(halves) || halves < 1 || halves > kMostHalves)
    run.refuse(node, "dlpipe supports exponents that are multiples of 0.5, from 0.5 to 8 or below 0, got ",
               exponent);
  const Tensor x = float_input(run, node);
  const int whole = static_cast<int>(halves) / 2;
  Tensor y = whole == 0 ? sqrt(x) : x;
  for (int i = 1; i < whole; ++i) y = y * x;
  if (whole > 0 && static_cast<int>(halves) % 2 == 1) y = y * sqrt(x);
  if (exponent < 0) y = reciprocal_of(y);
  // If the exponent has more axes than x, the result has them, too.
  const Shape from = run.shape(node, 0), to = broadcast(run, node, from.dims(), run.shape(node, 1).dims());
  if (to == from) return run.set_like_input(node, y);
  run.set(node, reshape(run.value(node, 0).is_image ? planes_of(y) : y, to));
}

// Products.

void matmul_op(Run& run, const NodeEntry& node) {
  Tensor a = run.tensor(node, 0), b = run.tensor(node, 1);
  if (a.rank() < 1 || b.rank() < 1)
    run.refuse(node, "expected matrices or vectors, got ", a.shape().to_string(), " and ",
               b.shape().to_string());
  // A vector is a row on the left and a column on the right; its axis is removed afterwards.
  const bool is_row = a.rank() == 1, is_column = b.rank() == 1;
  if (is_row) a = reshape(a, {1, a.size(0)});
  if (is_column) b = reshape(b, {b.size(0), 1});
  Tensor y = b.rank() == 2 && a.rank() > 2 ? linear(a, transpose(b, {1, 0}), Tensor()) : matmul(a, b);
  if (is_row || is_column) {
    Shape shape;
    for (int axis = 0; axis < y.rank(); ++axis) {
      const bool goes = (is_column && axis == y.rank() - 1) || (is_row && axis == y.rank() - 2);
      if (!goes) shape.push_back(y.size(axis));
    }
    y = reshape(y, shape);
  }
  run.set(node, y);
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

// Reduces known integers along axes; no axes: all.
KnownInts reduced(const Run& run, const NodeEntry& node, std::vector<int> axes, bool keep,
                  int64_t (*join)(int64_t, int64_t)) {
  KnownInts ints = run.ints(node, 0);
  const KnownInts sizes = run.sizes(node, 0);
  if (axes.empty()) {
    for (size_t axis = 0; axis < ints.dims.size(); ++axis) axes.push_back(static_cast<int>(axis));
  }
  std::sort(axes.rbegin(), axes.rend());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  for (const int axis : axes) {
    const auto at = static_cast<size_t>(axis);
    refuse_growing(run, node, known_one(sizes, at), "the number of integers that it reduces");
    if (ints.dims[at] == 0) run.refuse(node, "axis ", axis, " has nothing to reduce");
    KnownInts joined = known_at(ints, axis, {0});
    for (int64_t i = 1; i < ints.dims[at]; ++i)
      joined = known_elements(run, node, join, joined, known_at(ints, axis, {i}));
    ints = std::move(joined);
    if (!keep) ints.dims.erase(ints.dims.begin() + axis);
  }
  return ints;
}

// `kLeavesSingle`: the op returns a single element unchanged, so with noop_with_empty_axes the node does nothing. `kKnown`: the op
// supports integers, and this function combines two known ones.
template <Tensor (*kOp)(const Tensor&, const std::vector<int>&, bool), bool kLeavesSingle = true,
          int64_t (*kKnown)(int64_t, int64_t) = nullptr>
void reduce(Run& run, const NodeEntry& node) {
  const Shape shape = run.shape(node, 0);
  const std::vector<int64_t> given = run.ints_or_attribute(node, 1, "axes", {});
  const bool keep = run.attribute(node, "keepdims", int64_t{1}) != 0;
  std::vector<int> axes = run.axes(node, given, shape.rank());
  if (axes.empty() && run.attribute(node, "noop_with_empty_axes", int64_t{0}) != 0) {
    if (!kLeavesSingle) run.refuse(node, "dlpipe doesn't support noop_with_empty_axes for it");
    return run.set_value(node, run.value(node, 0));
  }
  if (kKnown != nullptr && run.is_known(node, 0))
    return run.set_ints(node, reduced(run, node, axes, keep, kKnown));
  const auto reduce_all = [&](const Tensor& x) {
    const auto op = [&](const Tensor& floats) { return kOp(floats, axes, keep); };
    return kKnown != nullptr ? of_numbers(x, op) : op(x);
  };
  const bool pixels_alone = axes == std::vector<int>{2, 3};
  if (run.value(node, 0).is_image && (keep || pixels_alone)) {
    for (int& axis : axes) axis = kImageAxis[static_cast<size_t>(axis)];
    const Tensor y = reduce_all(run.value(node, 0).tensor);
    if (keep) return run.set_image(node, y);
    return run.set(node, y);  // [N,C]
  }
  run.set(node, reduce_all(run.tensor(node, 0)));
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

Tensor smallest(const Tensor& x, const std::vector<int>& axes, bool keep) {
  return scale(largest(scale(x, -1.0), axes, keep), -1.0);
}
Tensor sum_of_squares(const Tensor& x, const std::vector<int>& axes, bool keep) {
  return sum(x * x, axes, keep);
}
Tensor norm_1(const Tensor& x, const std::vector<int>& axes, bool keep) {
  return sum(absolute_of(x), axes, keep);
}
Tensor norm_2(const Tensor& x, const std::vector<int>& axes, bool keep) {
  return sqrt(sum_of_squares(x, axes, keep));
}
Tensor log_sum(const Tensor& x, const std::vector<int>& axes, bool keep) {
  return log(sum(x, axes, keep));
}
// Subtracts the largest finite element, so that nothing overflows; infinity minus itself would be NaN.
Tensor log_sum_exp(const Tensor& x, const std::vector<int>& axes, bool keep) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto shift = [&](bool keep_axes) { return clip(largest(x, axes, keep_axes), -kMost, kMost); };
  return log(sum(exp(x - shift(true)), axes, keep)) + shift(keep);
}

// The index of the largest or smallest element along an axis, as PyTorch's argmax: the first of equal ones, and NaN wins. Numbers
// the elements from the other end, so that the largest number among the equal elements is the wanted one.
template <bool kIsLargest>
void place_of_extreme(Run& run, const NodeEntry& node) {
  const bool keep = run.attribute(node, "keepdims", int64_t{1}) != 0;
  const int model_axis = run.axis(node, run.attribute(node, "axis", int64_t{0}), run.shape(node, 0).rank());
  // Without keepdims, only removing the channels leaves the axes in the model's order.
  const bool is_image = run.value(node, 0).is_image && (keep || model_axis == 1);
  const Tensor given = as_floats(is_image ? run.image(node, 0) : run.tensor(node, 0), DType::kF64);
  const Tensor x = kIsLargest ? given : scale(given, -1.0);
  const int axis = is_image ? kImageAxis[static_cast<size_t>(model_axis)] : model_axis;
  const bool is_last = run.attribute(node, "select_last_index", int64_t{0}) != 0;
  const int64_t size = x.size(axis);
  constexpr int64_t kMost = 1 << 24;  // counted in f32
  if (size < 1 || size > kMost) run.refuse(node, "expected 1 to 2^24 elements along the axis, got ", size);
  std::vector<float> counts(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i)
    counts[static_cast<size_t>(i)] = static_cast<float>(is_last ? i + 1 : size - i);
  Shape along;
  for (int i = 0; i < x.rank(); ++i) along.push_back(i == axis ? size : 1);
  Tensor is_it = maximum(equal(x, max(x, axis, true)), negated(equal(x, x)));
  if (is_it.dtype() == DType::kF64) is_it = cast(is_it, DType::kF32);  // of integers
  const Tensor count = max(is_it * Tensor::from<float>(counts, along), axis, keep);
  const Tensor place =
      cast(is_last ? scale(count, 1.0, -1.0) : scale(count, -1.0, static_cast<double>(size)), DType::kI64);
  run.set_value(node, {place, is_image && keep});
}

// Before opset 13 all axes from `axis` on are treated as one. Later axes of size 1 don't matter.
template <Tensor (*kOp)(const Tensor&, int)>
void softmax_op(Run& run, const NodeEntry& node) {
  const Shape shape = run.shape(node, 0);
  const int rank = shape.rank();
  const int axis =
      run.axis(node, run.attribute(node, "axis", run.opset() < 13 ? int64_t{1} : int64_t{-1}), rank);
  int64_t rows = 1, behind = 1;
  for (int i = 0; i < axis; ++i) rows *= shape[i];
  for (int i = axis + 1; i < rank; ++i) behind *= shape[i];
  if (run.opset() < 13 && behind != 1) {
    const Tensor joined = reshape(run.tensor(node, 0), {rows, shape[axis] * behind});
    return run.set(node, reshape(kOp(joined, 1), shape));
  }
  if (run.value(node, 0).is_image)
    return run.set_image(node, kOp(run.value(node, 0).tensor, kImageAxis[static_cast<size_t>(axis)]));
  run.set(node, kOp(run.tensor(node, 0), axis));
}

void swish(Run& run, const NodeEntry& node) {
  const Tensor x = float_input(run, node);
  const double alpha = run.attribute(node, "alpha", 1.0);
  run.set_like_input(node, alpha == 1.0 ? silu(x) : x * sigmoid(scale(x, alpha)));
}

constexpr std::array kMathOps = {
    ImportedOp{"Abs", absolute_op},
    ImportedOp{"ArgMax", place_of_extreme<true>},
    ImportedOp{"ArgMin", place_of_extreme<false>},
    ImportedOp{"Celu", celu},
    ImportedOp{"Clip", clip_op},
    ImportedOp{"Cos", unary<cos>},
    ImportedOp{"Elu", elu},
    ImportedOp{"Erf", unary<erf>},
    ImportedOp{"Exp", unary<exp>},
    ImportedOp{"Gelu", gelu_op},
    ImportedOp{"Gemm", gemm},
    ImportedOp{"HardSigmoid", hard_sigmoid},
    ImportedOp{"HardSwish", unary<hard_swish_of>},
    ImportedOp{"LeakyRelu", leaky_relu},
    ImportedOp{"Log", unary<log>},
    ImportedOp{"LogSoftmax", softmax_op<log_softmax>},
    ImportedOp{"MatMul", matmul_op},
    ImportedOp{"Mish", unary<mish_of>},
    ImportedOp{"Pow", pow_op},
    ImportedOp{"Reciprocal", unary<reciprocal_of>},
    ImportedOp{"ReduceL1", reduce<norm_1, false>},
    ImportedOp{"ReduceL2", reduce<norm_2, false>},
    ImportedOp{"ReduceLogSum", reduce<log_sum, false>},
    ImportedOp{"ReduceLogSumExp", reduce<log_sum_exp>},
    ImportedOp{"ReduceMax", reduce<largest, true, known_max>},
    ImportedOp{"ReduceMean", reduce<mean>},
    ImportedOp{"ReduceMin", reduce<smallest, true, known_min>},
    ImportedOp{"ReduceSum", reduce<sum, true, known_add>},
    ImportedOp{"ReduceSumSquare", reduce<sum_of_squares, false>},
    ImportedOp{"Relu", unary<relu>},
    ImportedOp{"Selu", selu},
    ImportedOp{"Sigmoid", unary<sigmoid>},
    ImportedOp{"Sin", unary<sin>},
    ImportedOp{"Softmax", softmax_op<softmax>},
    ImportedOp{"Softplus", unary<softplus_of>},
    ImportedOp{"Softsign", unary<softsign_of>},
    ImportedOp{"Sqrt", unary<sqrt>},
    ImportedOp{"Swish", swish},
    ImportedOp{"Tanh", unary<tanh>},
};

}  // namespace

std::span<const ImportedOp> math_ops() {
  return kMathOps;
}

}  // namespace dlpipe::engine::onnx
