// Attributes and shape rules of the ops that reduce axes: sum, mean, max.
#pragma once

#include "dlpipe/op.h"

namespace dlpipe::engine {

struct ReductionAttrs {
  uint32_t axes = 0;  // bit(i): axis i is summed
  bool keep_dims = false;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axes", self.axes);
    visit("keep_dims", self.keep_dims);
  }
};

/// Attributes of a reduction of `x` over `axes` (negative ones count from the end; none: all).
ReductionAttrs reduction_attrs(std::string_view op, const Tensor& x, const std::vector<int>& axes,
                               bool keep_dims);
/// `shape` with the reduced axes of size 1.
Shape kept_shape(const Shape& shape, uint32_t axes);
std::vector<TensorSpec> reduction_rule(std::string_view op, std::span<const TensorSpec> inputs,
                                       const Attrs& attrs);
std::vector<OpSample> reduction_samples();
/// Samples of realistic sizes, for benchmarks: few and many terms, few and many sums.
std::vector<OpSample> reduction_bench_samples();
/// Number of terms of each sum.
double reduction_count(const Shape& shape, uint32_t axes);

struct MaxAttrs {
  int axis = 0;  // counted from the front
  bool keep_dims = false;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("axis", self.axis);
    visit("keep_dims", self.keep_dims);
  }
};

}  // namespace dlpipe::engine
