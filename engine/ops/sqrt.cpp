#include "dlpipe/engine/ops/sqrt.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord sqrt_op;
const OpRecord sqrt_op = {
    .name = "sqrt",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("sqrt", inputs); },
    .save_outputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(0.1, 4); },
};

Tensor sqrt(const Tensor& x) {
  return apply_one(sqrt_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
