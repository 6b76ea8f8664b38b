#include "dlpipe/engine/ops/shape_rules.h"

#include <algorithm>

#include "dlpipe/base/refuse.h"

namespace dlpipe::engine {

void reject(std::string_view op, const std::string& message) {
  refuse(op, message);
}

std::string describe(const TensorSpec& spec) {
  std::string text = concat(dtype_name(spec.dtype), " ", spec.shape.to_string());
  if (spec.layout != Layout::kPlain) text += concat(" ", layout_name(spec.layout));
  return text;
}

void expect_inputs(std::string_view op, std::span<const TensorSpec> inputs, size_t least, size_t most) {
  if (inputs.size() >= least && inputs.size() <= most) return;
  reject(op, least == most ? concat("expected ", least, " inputs, got ", inputs.size())
                           : concat("expected ", least, " to ", most, " inputs, got ", inputs.size()));
}

void expect_floating(std::string_view op, const TensorSpec& spec, std::string_view what) {
  if (is_floating(spec.dtype)) return;
  reject(op, concat("expected a floating ", what, ", got ", describe(spec), "; cast() it first"));
}

void expect_dtype(std::string_view op, const TensorSpec& spec, DType dtype, std::string_view what) {
  if (spec.dtype == dtype) return;
  reject(op,
         concat("expected ", what, " of ", dtype_name(dtype), ", got ", describe(spec), "; cast() it first"));
}

void expect_rank(std::string_view op, const TensorSpec& spec, int rank, std::string_view what) {
  if (spec.shape.rank() == rank) return;
  reject(op,
         concat("expected ", what, " with ", rank, " axes, got ", describe(spec), "; reshape() it first"));
}

void expect_sizes(std::string_view op, const Shape& shape) {
  if (std::ranges::all_of(shape, [](int64_t size) { return size >= 0; })) return;
  reject(op, concat("expected sizes of at least 0, got ", shape.to_string()));
}

void expect_shape(std::string_view op, const TensorSpec& spec, const Shape& shape, std::string_view what) {
  if (spec.shape == shape) return;
  reject(op, concat("expected ", what, " of shape ", shape.to_string(), ", got ", describe(spec)));
}

int checked_axis(std::string_view op, int axis, int rank) {
  const int counted = axis < 0 ? axis + rank : axis;
  if (counted >= 0 && counted < rank) return counted;
  reject(op,
         concat("axis ", axis, " of a tensor with ", rank, " axes; give one from ", -rank, " to ", rank - 1));
}

void expect_axis(std::string_view op, int axis, int rank) {
  if (axis >= 0 && axis < rank) return;
  reject(op, concat("axis ", axis, " of a tensor with ", rank, " axes; give one from 0 to ", rank - 1));
}

}  // namespace dlpipe::engine
