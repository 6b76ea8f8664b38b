#include "dlpipe/engine/ops/sigmoid.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord sigmoid_op;
const OpRecord sigmoid_op = {
    .name = "sigmoid",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("sigmoid", inputs); },
    .save_outputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(-4, 4); },
};

Tensor sigmoid(const Tensor& x) {
  return apply_one(sigmoid_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
