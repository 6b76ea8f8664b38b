// log_softmax: x - log sum e^x along an axis, computed from the largest value so that nothing overflows.
#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/axis_split.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"
#include "dlpipe/engine/ops/softmax.h"

namespace dlpipe::engine {

extern const OpRecord log_softmax_op;
const OpRecord log_softmax_op = {
    .name = "log_softmax",
    .attr_form = &attr_form<SoftmaxAttrs>,
    .infer = [](auto inputs, auto, const Attrs& attrs) { return softmax_rule("log_softmax", inputs, attrs); },
    .save_outputs = bit(0),
    .autocast = Autocast::kF32,
    .batch_inputs = bit(0),
    .by_sample = is_off_axis_0<SoftmaxAttrs>,
    .samples = softmax_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"rows", {{{16384, 1024}}}, SoftmaxAttrs{1}}};
        },
};

Tensor log_softmax(const Tensor& x, int axis) {
  return apply_one(log_softmax_op, {x}, SoftmaxAttrs{checked_axis("log_softmax", axis, x.rank())});
}

}  // namespace dlpipe::engine
