// What sum and mean share.
#pragma once

#include "dlpipe/engine/core/op.h"

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
/// At the sizes of networks, for benchmarks: sums of few and of many terms, to few and to many.
std::vector<OpSample> reduction_bench_samples();
/// Number of terms of each sum.
double reduction_count(const Shape& shape, uint32_t axes);

}  // namespace dlpipe::engine
