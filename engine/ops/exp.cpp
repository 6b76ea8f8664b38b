#include "dlpipe/engine/ops/exp.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord exp_op;
const OpRecord exp_op = {
    .name = "exp",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("exp", inputs); },
    .save_outputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(-3, 3); },
};

Tensor exp(const Tensor& x) {
  return apply_one(exp_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
