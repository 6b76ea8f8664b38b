#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/reduction.h"

namespace dlpipe::engine {

extern const OpRecord sum_op;
const OpRecord sum_op = {
    .name = "sum",
    .attr_form = &attr_form<ReductionAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return reduction_rule("sum", inputs, attrs); },
    .samples = reduction_samples,
    .bench = reduction_bench_samples,
    .f32 = {1e-5, 1e-4, "sums of up to 120,000 terms of size 1"},
    .bf16 = {1e-2, 1e-1, "sums are in f32, the result is rounded to 8 bits"},
    .f16 = {2e-3, 2e-2, "sums are in f32, the result is rounded to 11 bits"},
};

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keep_dims) {
  return apply_one(sum_op, {x}, reduction_attrs("sum", x, axes, keep_dims));
}

}  // namespace dlpipe::engine
