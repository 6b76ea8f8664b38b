// Imports arithmetic and comparisons of operands with broadcasting, for tensors and for known integers.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine/onnx/import_run.h"
#include "engine/onnx/known_elements.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine::onnx {

namespace {

// Input `i` as an operand of images, to be broadcast by NumPy's rules: the model's [C,1,1] becomes [1,1,1,C].
Tensor image_operand(Run& run, const NodeEntry& node, size_t i) {
  const RunValue& value = run.value(node, i);
  if (value.is_image) return value.tensor;
  Tensor plain = run.tensor(node, i);
  if (plain.elements() == 1) return plain;
  Shape shape;
  for (int axis = plain.rank(); axis < 4; ++axis) shape.push_back(1);
  for (const int64_t size : plain.shape().dims()) shape.push_back(size);
  return image_of(reshape(plain, shape));
}

struct Operands {
  std::vector<Tensor> all;
  bool are_images = false;
};

// All inputs, in the same order of axes.
Operands operands_of(Run& run, const NodeEntry& node) {
  if (node.inputs.empty()) run.refuse(node, "it has no inputs; export the model again");
  bool images = false, fits = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    images = images || run.value(node, i).is_image;
    fits = fits && run.shape(node, i).rank() <= 4;
  }
  Operands operands{{}, images && fits};
  for (size_t i = 0; i < node.inputs.size(); ++i)
    operands.all.push_back(operands.are_images ? image_operand(run, node, i) : run.tensor(node, i));
  return operands;
}

// Combines all inputs from left to right, then multiplies by `factor`.
template <class Function>
void joined(Run& run, const NodeEntry& node, const Function& op, double factor = 1.0) {
  const Operands operands = operands_of(run, node);
  Tensor y = operands.all[0];
  for (size_t i = 1; i < operands.all.size(); ++i) y = op(y, operands.all[i]);
  if (factor != 1.0) y = scale(y, factor);
  run.set_value(node, {y, operands.are_images});
}

using BinaryOp = Tensor (*)(const Tensor&, const Tensor&);

// Applies `op` to floats, or to integers that depend on the input. Integers are computed in f64, which is exact below 2^53.
// Quotients of integers are truncated, as in C.
Tensor of_both(BinaryOp op, const Tensor& a, const Tensor& b) {
  const bool are_integers = !is_floating(a.dtype()) && !is_floating(b.dtype());
  return are_integers ? cast(op(as_floats(a, DType::kF64), as_floats(b, DType::kF64)), DType::kI64)
                      : op(a, b);
}

void binary(Run& run, const NodeEntry& node, Tensor (*op)(const Tensor&, const Tensor&)) {
  if (node.inputs.size() != 2) run.refuse(node, "expected two inputs, got ", node.inputs.size());
  const Operands operands = operands_of(run, node);
  run.set_value(node, {of_both(op, operands.all[0], operands.all[1]), operands.are_images});
}

Tensor prelu_of(const Tensor& x, const Tensor& slope) {  // slope x where x < 0, else x
  return relu(x) + slope * negative_part(x);
}

void sum_op(Run& run, const NodeEntry& node) {
  joined(run, node, add);
}

void mean_op(Run& run, const NodeEntry& node) {
  joined(run, node, add, 1.0 / static_cast<double>(std::max<size_t>(1, node.inputs.size())));
}

bool both_known(const Run& run, const NodeEntry& node) {
  return run.is_known(node, 0) && run.is_known(node, 1);
}

template <Tensor (*kOp)(const Tensor&, const Tensor&), int64_t (*kKnown)(int64_t, int64_t)>
void arithmetic(Run& run, const NodeEntry& node) {
  if (both_known(run, node)) {
    run.set_ints(node, known_elements(run, node, kKnown, run.ints(node, 0), run.ints(node, 1)));
  } else {
    binary(run, node, kOp);
  }
}

template <int64_t (*kKnown)(int64_t, int64_t)>
void known_only(Run& run, const NodeEntry& node) {
  if (!both_known(run, node))
    run.refuse(node, "dlpipe supports it for sizes only, not for values that depend on the input");
  run.set_ints(node, known_elements(run, node, kKnown, run.ints(node, 0), run.ints(node, 1)));
}

template <Tensor (*kOp)(const Tensor&, const Tensor&), int64_t (*kKnown)(int64_t, int64_t)>
void comparison(Run& run, const NodeEntry& node) {
  if (node.inputs.size() != 2) run.refuse(node, "expected two inputs, got ", node.inputs.size());
  if (both_known(run, node)) return known_only<kKnown>(run, node);
  const Operands operands = operands_of(run, node);
  const Tensor& a = operands.all[0];
  const Tensor& b = operands.all[1];
  // An integer that is compared with a float is a boolean, which f32 holds exactly.
  const DType dtype = is_floating(a.dtype()) || is_floating(b.dtype()) ? DType::kF32 : DType::kF64;
  run.set_truth(node, kOp(as_floats(a, dtype), as_floats(b, dtype)), operands.are_images);
}

Tensor less(const Tensor& a, const Tensor& b) {
  return greater(b, a);
}
Tensor greater_or_equal(const Tensor& a, const Tensor& b) {  // false for NaN
  return greater(a, b) + equal(a, b);
}
Tensor less_or_equal(const Tensor& a, const Tensor& b) {
  return greater_or_equal(b, a);
}

void mod(Run& run, const NodeEntry& node) {
  return run.attribute(node, "fmod", int64_t{0}) != 0 ? known_only<known_rest>(run, node)
                                                      : known_only<known_mod>(run, node);
}

// Chooses one of two tensors by `which`, a single boolean. The result has the broadcast shape of all three.
void choose_whole(Run& run, const NodeEntry& node, const KnownInts& which) {
  const size_t chosen = which.values[0] != 0 ? 1 : 2;
  const Shape yes = run.shape(node, 1), no = run.shape(node, 2);
  const Shape both = broadcast(run, node, yes.dims(), no.dims());
  const Shape shape = broadcast(run, node, which.dims, both.dims());
  if (run.shape(node, chosen) == shape) return run.set_value(node, run.value(node, chosen));
  run.set(node, expand(run.tensor(node, chosen), shape));
}

// Chooses element by element. The two tensors are masked separately, so that infinity and NaN of one don't affect the other.
void choose_elements(Run& run, const NodeEntry& node) {
  const Operands operands = operands_of(run, node);
  const bool are_integers = !is_floating(operands.all[1].dtype()) && !is_floating(operands.all[2].dtype());
  const DType dtype = are_integers ? DType::kF64 : DType::kF32;
  const Tensor which = as_floats(operands.all[0], dtype);
  const Tensor yes = as_floats(operands.all[1], dtype), no = as_floats(operands.all[2], dtype);
  Tensor y;
  if (run.known_number(node, 1) != 0.0) y = mask(yes, which);
  if (run.known_number(node, 2) != 0.0) {
    const Tensor other = mask(no, negated(which));
    y = y.defined() ? y + other : other;
  }
  if (!y.defined()) y = mask(yes, which);
  const Shape shape =
      broadcast_shape("where", broadcast_shape("where", yes.shape(), no.shape()), which.shape());
  if (y.shape() != shape) y = expand(y, shape);  // an omitted constant 0 may have more axes
  run.set_value(node, {are_integers ? cast(y, DType::kI64) : y, operands.are_images});
}

void where(Run& run, const NodeEntry& node) {
  if (node.inputs.size() != 3) run.refuse(node, "expected three inputs, got ", node.inputs.size());
  const bool is_known = run.is_known(node, 0), are_known = run.is_known(node, 1) && run.is_known(node, 2);
  if (is_known && are_known) {
    run.set_ints(node, known_elements(run, node, known_choice, run.ints(node, 0), run.ints(node, 1),
                                      run.ints(node, 2)));
  } else if (is_known && run.ints(node, 0).values.size() == 1) {
    choose_whole(run, node, run.ints(node, 0));
  } else {
    choose_elements(run, node);
  }
}

void negative(Run& run, const NodeEntry& node) {
  if (!run.is_known(node, 0)) {
    const Tensor& x = run.value(node, 0).tensor;
    return run.set_like_input(node, cast(scale(as_floats(x, DType::kF64), -1.0), x.dtype()));
  }
  KnownInts ints = run.ints(node, 0);
  for (int64_t& value : ints.values) value = known_sub(0, value);
  run.set_ints(node, std::move(ints));
}

void logical_not(Run& run, const NodeEntry& node) {
  if (!run.is_known(node, 0)) {
    const RunValue& truth = run.value(node, 0);
    return run.set_truth(node, negated(truth.tensor), truth.is_image);
  }
  KnownInts ints = run.ints(node, 0);
  for (int64_t& value : ints.values) value = value == 0 ? 1 : 0;
  run.set_ints(node, std::move(ints));
}

void is_nan(Run& run, const NodeEntry& node) {
  const RunValue& x = run.value(node, 0);
  if (x.ints || !is_floating(x.tensor.dtype())) run.refuse(node, "dlpipe supports floats only");
  run.set_truth(node, negated(equal(x.tensor, x.tensor)), x.is_image);
}

template <Tensor (*kOp)(const Tensor&, const Tensor&), int64_t (*kKnown)(int64_t, int64_t)>
void extreme(Run& run, const NodeEntry& node) {
  if (node.inputs.size() == 1) return run.set_value(node, run.value(node, 0));
  bool all_known = !node.inputs.empty();
  for (size_t i = 0; i < node.inputs.size(); ++i) all_known = all_known && run.is_known(node, i);
  if (!all_known)
    return joined(run, node, [](const Tensor& a, const Tensor& b) { return of_both(kOp, a, b); });
  KnownInts ints = run.ints(node, 0);
  for (size_t i = 1; i < node.inputs.size(); ++i)
    ints = known_elements(run, node, kKnown, ints, run.ints(node, i));
  run.set_ints(node, std::move(ints));
}

// The triangle of the last two axes, with the `k`th diagonal; zeros elsewhere.
void triangle(Run& run, const NodeEntry& node) {
  const bool is_upper = run.attribute(node, "upper", int64_t{1}) != 0;
  const std::vector<int64_t> given = run.has(node, 1) ? run.ints(node, 1).values : std::vector<int64_t>{0};
  if (given.size() != 1) run.refuse(node, "its k is ", given.size(), " numbers");
  if (run.has(node, 1)) refuse_growing(run, node, run.ints(node, 1), "its diagonal");
  const Shape shape = run.shape(node, 0);
  if (shape.rank() < 2) run.refuse(node, "expected at least two axes, got ", shape.to_string());
  const int64_t rows = shape[-2], columns = shape[-1], k = std::clamp(given[0], -rows - 1, columns + 1);
  if (shape.elements() == 0) return run.set_value(node, run.value(node, 0));
  constexpr int64_t kMost = int64_t{1} << 28;
  if (rows > kMost / columns) run.refuse(node, "its triangle of ", rows, "x", columns, " is too large");
  const auto keeps = [&](int64_t row, int64_t column) {
    return is_upper ? column - row >= k : column - row <= k;
  };
  if (run.is_known(node, 0)) {
    KnownInts ints = run.ints(node, 0);
    for (size_t i = 0; i < ints.values.size(); ++i) {
      const auto place = static_cast<int64_t>(i) % (rows * columns);
      if (!keeps(place / columns, place % columns)) ints.values[i] = 0;
    }
    return run.set_ints(node, std::move(ints));
  }
  Tensor kept = Tensor::empty({rows, columns});
  float* to = kept.data<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) *to++ = keeps(row, column) ? 1 : 0;
  }
  run.set(node, mask(run.tensor(node, 0), kept));
}

constexpr std::array kArithmeticOps = {
    ImportedOp{"Add", arithmetic<add, known_add>},
    ImportedOp{"And", comparison<mul, known_and>},
    ImportedOp{"Div", arithmetic<div, known_div>},
    ImportedOp{"Equal", comparison<equal, known_equal>},
    ImportedOp{"Greater", comparison<greater, known_greater>},
    ImportedOp{"GreaterOrEqual", comparison<greater_or_equal, known_greater_or_equal>},
    ImportedOp{"IsNaN", is_nan},
    ImportedOp{"Less", comparison<less, known_less>},
    ImportedOp{"LessOrEqual", comparison<less_or_equal, known_less_or_equal>},
    ImportedOp{"Max", extreme<maximum, known_max>},
    ImportedOp{"Mean", mean_op},
    ImportedOp{"Min", extreme<minimum, known_min>},
    ImportedOp{"Mod", mod},
    ImportedOp{"Mul", arithmetic<mul, known_mul>},
    ImportedOp{"Neg", negative},
    ImportedOp{"Not", logical_not},
    ImportedOp{"Or", comparison<maximum, known_or>},
    ImportedOp{"PRelu", [](Run& run, const NodeEntry& node) { binary(run, node, prelu_of); }},
    ImportedOp{"Sub", arithmetic<sub, known_sub>},
    ImportedOp{"Sum", sum_op},
    ImportedOp{"Trilu", triangle},
    ImportedOp{"Where", where},
};

}  // namespace

std::span<const ImportedOp> arithmetic_ops() {
  return kArithmeticOps;
}

}  // namespace dlpipe::engine::onnx
