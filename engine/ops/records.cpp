#include "engine/ops/records.h"

#include <algorithm>
#include <memory>

#include "dlpipe/error.h"

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

namespace {

/// Whether the shape rule accepts a sample. Samples have no undefined inputs.
bool passes(const OpRecord& record, const OpSample& sample) {
  const auto defined = std::make_unique<bool[]>(sample.inputs.size());
  std::fill_n(defined.get(), sample.inputs.size(), true);
  try {
    record.infer(sample.inputs, {defined.get(), sample.inputs.size()}, sample.attrs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

OpSample grown(const OpRecord& record, const OpSample& sample) {
  constexpr int64_t kElements = int64_t{1} << 24;
  OpSample out = sample;
  const Shape& first = sample.inputs.at(0).shape;
  if (first.rank() == 0 || first.elements() == 0) return sample;
  const int64_t factor = std::max<int64_t>(1, kElements / first.elements());
  for (TensorSpec& input : out.inputs) {
    if (input.shape.rank() == 0 || input.shape[0] != first[0]) continue;
    Shape longer;
    for (int axis = 0; axis < input.shape.rank(); ++axis)
      longer.push_back(axis == 0 ? input.shape[0] * factor : input.shape[axis]);
    input.shape = longer;
  }
  out.name = "large";
  return passes(record, out) ? out : sample;
}

}  // namespace

std::vector<OpSample> bench_samples(const OpRecord& record) {
  if (record.bench != nullptr) return record.bench();
  if (record.samples == nullptr) return {};
  const std::vector<OpSample> own = record.samples();
  if (own.empty()) return {};
  return {grown(record, own.front())};
}

std::vector<OpSample> large_sample(std::vector<OpSample> samples, std::vector<TensorSpec> inputs) {
  samples.resize(1);
  samples[0].name = "large";
  samples[0].inputs = std::move(inputs);
  return samples;
}

}  // namespace dlpipe::engine
