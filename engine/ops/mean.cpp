#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/reduction.h"

namespace dlpipe::engine {

extern const OpRecord mean_op;
const OpRecord mean_op = {
    .name = "mean",
    .attr_form = &attr_form<ReductionAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return reduction_rule("mean", inputs, attrs); },
    .samples = reduction_samples,
    .bench = reduction_bench_samples,
    .f32 = {1e-5, 1e-6, "sums of up to 120,000 terms of size 1, divided by their number"},
    .bf16 = {1e-2, 1e-3, "sums are in f32, the result is rounded to 8 bits"},
    .f16 = {2e-3, 2e-4, "sums are in f32, the result is rounded to 11 bits"},
};

Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keep_dims) {
  return apply_one(mean_op, {x}, reduction_attrs("mean", x, axes, keep_dims));
}

}  // namespace dlpipe::engine
